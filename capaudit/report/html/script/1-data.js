// The report's data: decoded once, then folded into one call tree per boundary.
const CLASSES = [
  ["rejected", "\u25b2"], ["unresolved", "?"], ["completion-owned", "\u25c6"], ["cold-path", "\u25cb"], ["graph-eligible", "\u25cf"],
];
const GLYPH = new Map(CLASSES);
const RANK = new Map(CLASSES.map(([name], index) => [name, index]));
const data = JSON.parse(document.getElementById("data").textContent);
const str = (index) => data.strings[index];

const operations = data.operations.map((row, id) => ({
  id, ownership: str(row[0]), hazard: row[1] < 0 ? null : str(row[1]), file: str(row[2]), line: row[3], column: row[4],
  endLine: row[5], endColumn: row[6], owner: str(row[7]), boundary: str(row[8]), name: str(row[9]), text: str(row[10]),
  reason: str(row[11]),
}));
const findings = data.findings.map((finding, id) => ({
  ...finding, id,
  owner: finding.owner, ownership: finding.class,
}));
const functions = data.functions.map((row) => ({
  owner: str(row[0]), file: str(row[1]), line: row[2], endLine: row[3], boundary: str(row[4]),
  callers: row[5].map(([owner, file, line]) => ({ owner: str(owner), file: str(file), line })),
}));
const sources = new Map(data.sources.map(([file, segments]) => [str(file), segments]));
const eventsAt = new Map();
for (const event of data.events) {
  const key = event.file + ":" + event.line;
  if (!eventsAt.has(key)) eventsAt.set(key, []);
  eventsAt.get(key).push(event);
}
const nodesOf = (event) => Object.values(event.nodes || {}).reduce((sum, number) => sum + number, 0);
const nodesAt = (file, line) => Math.max(0, ...(eventsAt.get(file + ":" + line) || []).map(nodesOf));
const mostNodes = Math.max(1, ...data.events.map(nodesOf));

// Source must not steer what a reader sees: control characters and direction overrides become visible.
const HIDDEN = /[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u061c\u200b-\u200f\u202a-\u202e\u2060-\u2069\ufeff]/g;
const plain = (text) => String(text).replace(HIDDEN, "\ufffd");

/** The last parts of a dotted owner that a reader knows it by, and the rest. */
function shortName(owner) {
  const parts = owner.split(".");
  let start = parts.length - 1;
  while (start > 0 && (parts[start].startsWith("<") || /^_*[A-Z]/.test(parts[start - 1]) || parts[start - 1] === "<locals>")) start -= 1;
  return [parts.slice(start).join("."), parts.slice(0, start).join(".")];
}

/** How a function stands in a list: its own name, and the class or module that it belongs to. */
function labels(name, rest) {
  const cut = name.lastIndexOf(".");
  return cut < 0 ? [name, rest.split(".").slice(-2).join(".")] : [name.slice(cut + 1), name.slice(0, cut)];
}

/** One boundary's functions as a tree: each stands below the caller on its shortest path. */
function buildView(boundary) {
  const byOwner = new Map();
  for (const fn of functions) {
    if (fn.boundary !== boundary && fn.boundary !== "") continue;
    const [name, rest] = shortName(fn.owner);
    byOwner.set(fn.owner, { ...fn, name, rest, children: [], callees: [], operations: [], findings: [], parent: null, key: fn.owner });
  }
  const roots = [];
  for (const node of byOwner.values()) {
    const parent = node.callers.length ? byOwner.get(node.callers[0].owner) : null;
    if (parent && parent !== node) { node.parent = parent; parent.children.push(node); } else roots.push(node);
    for (const hop of node.callers) {
      const caller = byOwner.get(hop.owner);
      if (caller) caller.callees.push({ node, line: hop.line, file: hop.file });
    }
  }
  // A damaged file could hold a ring of first callers; whoever cannot be reached from a root becomes one.
  const seen = new Set();
  const visit = (node) => { if (seen.has(node)) return false; seen.add(node); node.children = node.children.filter(visit); return true; };
  roots.forEach(visit);
  for (const node of byOwner.values()) if (!seen.has(node)) { node.parent = null; roots.push(node); visit(node); }
  for (const node of byOwner.values()) {
    node.children.sort((a, b) => a.callers[0].line - b.callers[0].line);
    node.callees.sort((a, b) => a.line - b.line);
  }
  const mine = (item) => item.boundary === boundary || item.boundary === "";
  for (const operation of operations) if (mine(operation) && byOwner.has(operation.owner)) byOwner.get(operation.owner).operations.push(operation);
  const list = findings.filter(mine);
  for (const finding of list) if (byOwner.has(finding.owner)) byOwner.get(finding.owner).findings.push(finding);
  const unresolved = data.unresolved.filter(mine);
  return { boundary, byOwner, roots, findings: list, unresolved };
}
