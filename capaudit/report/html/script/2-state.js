// What is shown: one state, one way of changing it, and the filters that every pane obeys.
const view = new Map();
const state = {
  boundary: data.boundaries.length ? data.boundaries[0].name : "", tab: "tree", owner: null, finding: null, operation: null,
  line: null, classes: new Set(CLASSES.map(([name]) => name)), hazards: new Set(), query: "", open: new Set(), fresh: true,
};
function currentView() {
  if (!view.has(state.boundary)) view.set(state.boundary, buildView(state.boundary));
  return view.get(state.boundary);
}
const words = () => state.query.toLowerCase().split(/\s+/).filter(Boolean);
function ownerWanted(item, wanted) {
  if (!wanted.length) return true;
  const text = (item.owner + " " + item.file).toLowerCase();
  return wanted.every((word) => text.includes(word));
}
/** Whether an operation, a finding or an unresolved call passes the filters. */
function passes(item, wanted = words()) {
  const hazard = item.hazard === undefined ? null : item.hazard || (item.code ? item.name : null);
  return state.classes.has(item.ownership) && (!state.hazards.size || state.hazards.has(hazard)) && ownerWanted(item, wanted);
}
const filtered = () => state.hazards.size > 0 || state.query.trim() !== "" || state.classes.size < CLASSES.length;
const shownFindings = () => { const wanted = words(); return currentView().findings.filter((finding) => passes(finding, wanted)); };

/** Counts per class of what passes the filters, rolled up from the leaves; a node without any is hidden. */
function rollUp() {
  const wanted = words();
  const all = currentView();
  const add = (into, from) => { for (const key of Object.keys(from)) into[key] = (into[key] || 0) + from[key]; };
  const order = [];
  const stack = [...all.roots];
  while (stack.length) { const node = stack.pop(); order.push(node); stack.push(...node.children); }
  for (const node of order.reverse()) {
    node.own = {};
    for (const operation of node.operations) if (passes(operation, wanted)) node.own[operation.ownership] = (node.own[operation.ownership] || 0) + 1;
    if (!node.operations.length) for (const finding of node.findings) if (passes(finding, wanted)) node.own[finding.ownership] = (node.own[finding.ownership] || 0) + 1;
    node.sum = { ...node.own };
    node.children.forEach((child) => add(node.sum, child.sum));
    node.total = Object.values(node.sum).reduce((a, b) => a + b, 0);
    node.visible = node.total > 0 || (!filtered() && true);
  }
}
function reveal(node) { for (let up = node && node.parent; up; up = up.parent) state.open.add(up.key); }
function select(change) {
  Object.assign(state, { finding: null, operation: null, line: null }, change);
  const node = currentView().byOwner.get(state.owner);
  reveal(node);
  render();
  remember();
}
function selectFinding(finding) { select({ owner: finding.owner, finding, line: finding.line }); }
function step(by) {
  const list = orderedFindings();
  if (!list.length) return;
  const at = list.indexOf(state.finding);
  selectFinding(list[at < 0 ? (by > 0 ? 0 : list.length - 1) : (at + by + list.length) % list.length]);
}
/** Findings in the order of the list pane: by hazard, the most frequent first, then by place. */
function orderedFindings() { return groupedFindings().flatMap(([, list]) => list); }
function groupedFindings() {
  const groups = new Map();
  for (const finding of shownFindings()) {
    const key = finding.code + " " + finding.name;
    if (!groups.has(key)) groups.set(key, []);
    groups.get(key).push(finding);
  }
  return [...groups].sort((a, b) => b[1].length - a[1].length || (a[0] < b[0] ? -1 : 1));
}
function remember() {
  const parts = new URLSearchParams();
  if (data.boundaries.length > 1) parts.set("boundary", state.boundary);
  if (state.finding) parts.set("finding", state.finding.id); else if (state.owner) parts.set("owner", state.owner);
  try { history.replaceState(null, "", "#" + parts); } catch { /* a sandboxed page has no history */ }
}
function recall() {
  const parts = new URLSearchParams(location.hash.slice(1));
  if (data.boundaries.some((boundary) => boundary.name === parts.get("boundary"))) state.boundary = parts.get("boundary");
  const finding = parts.has("finding") ? findings[Number(parts.get("finding"))] : null;
  if (finding) { Object.assign(state, { owner: finding.owner, finding, line: finding.line }); if (finding.boundary) state.boundary = finding.boundary; }
  else if (parts.has("owner")) state.owner = parts.get("owner");
}
