// The middle pane: a function's source with its operations and findings in place.
function sourceLines(file, first, last) {
  for (const [start, text] of sources.get(file) || []) {
    const lines = text.split("\n");
    if (start <= first && first < start + lines.length) return lines.slice(first - start, last - start + 1);
  }
  return null;
}
function renderHead(node) {
  const head = $("head");
  head.replaceChildren();
  if (!node) { head.append(h("h2", null, "Nothing selected")); return; }
  const path = [];
  for (let up = node.parent; up; up = up.parent) path.unshift(up);
  if (path.length) head.append(h("nav", { class: "crumbs", "aria-label": "Call path" }, path.map((up) => [link(up.name, () => select({ owner: up.key }), { class: "" }), h("span", { "aria-hidden": "true" }, "\u203a")])));
  head.append(h("h2", null, node.name), h("div", { class: "file" }, h("span", null, node.file + ":" + node.line), CLASSES.filter(([name]) => node.own[name]).map(([name, sign]) => h("span", null, h("i", { class: "glyph " + name }, sign), node.own[name] + " " + name))));
}
function renderCode(node) {
  const pane = $("code");
  pane.replaceChildren();
  if (!node) { pane.append(h("p", { class: "empty" }, data.boundaries.length ? "Choose a function in the call tree." : "No boundary was audited, so there is nothing to show.")); return; }
  const lines = sourceLines(node.file, node.line, node.endLine);
  const wanted = words();
  const marks = new Map();
  for (const operation of node.operations) if (passes(operation, wanted)) for (let line = operation.line; line <= Math.min(operation.endLine, operation.line + 60); line += 1) { if (!marks.has(line)) marks.set(line, []); marks.get(line).push(operation); }
  const flags = new Map();
  for (const finding of node.findings) if (passes(finding, wanted)) { const line = finding.line; if (!flags.has(line)) flags.set(line, []); flags.get(line).push(finding); }
  if (!lines) {
    pane.append(h("div", { class: "gone" }, "The source of " + node.file + " was not there when this report was written; the findings stand."), [...flags.values()].flat().map(flag));
    return;
  }
  const hasNodes = data.events.length > 0 && lines.some((_, index) => nodesAt(node.file, node.line + index));
  const block = h("div", { class: "code" });
  let open = null;
  const folds = longTexts(lines, node.line, (line) => marks.has(line) || flags.has(line) || line === state.line);
  let skipped = 0;
  lines.forEach((raw, index) => {
    const number_ = node.line + index;
    const [colours, next] = highlight(raw, open);
    open = next;
    const fold = folds.get(number_);
    if (fold && !unfolded.has(node.key + number_)) {
      skipped = fold;
      block.append(h("button", { type: "button", class: "fold", on: click(() => { unfolded.add(node.key + number_); renderCode(node); }) }, "\u22ef " + plural(fold, "line") + " of text"));
    }
    if (skipped) { skipped -= 1; return; }
    const here = (marks.get(number_) || []).filter((operation) => number_ >= operation.line);
    const worstHere = here.filter((operation) => operation.line === number_).map((operation) => operation.ownership).sort((a, b) => RANK.get(a) - RANK.get(b))[0];
    const row = h("div", { class: "cl" + (worstHere ? " has-" + worstHere : "") + (number_ === state.line ? " target" : ""), "data-line": number_ },
      h("span", { class: "no" }, String(number_)), h("span", { class: "tx" }, pieces(raw, colours, here, number_)));
    if (hasNodes) { const count = nodesAt(node.file, number_); row.append(h("span", { class: "nodes", title: count ? plural(count, "graph node") : null }, count ? [h("i", { style: { width: Math.round(6 + (62 * count) / mostNodes) + "px" } }), String(count)] : "")); }
    block.append(row);
    (flags.get(number_) || []).forEach((finding) => block.append(flag(finding)));
  });
  pane.append(block);
  const target = pane.querySelector(".flag.current") || pane.querySelector(".cl.target");
  pane.scrollLeft = 0;
  if (target) pane.scrollTop = Math.max(0, target.offsetTop - pane.offsetTop - pane.clientHeight / 3); else pane.scrollTop = 0;
}
const unfolded = new Set();
const SHORT_TEXT = 10;
/** Long docstrings, but for their first line: first folded line to number of lines. */
function longTexts(lines, first, busy) {
  const found = new Map();
  let open = null;
  let from = 0;
  lines.forEach((raw, index) => {
    const before = open;
    [, open] = highlight(raw, open);
    if (!before && open) from = index + 1;
    if (before && !open && index - from >= SHORT_TEXT && !lines.slice(from, index + 1).some((_, i) => busy(first + from + i))) found.set(first + from, index - from);
  });
  return found;
}
function flag(finding) {
  return h("button", { type: "button", class: "flag " + finding.ownership + (finding === state.finding ? " current" : ""), "data-finding": finding.id, on: click(() => selectFinding(finding)) },
    h("b", null, finding.code + " " + finding.name), " ", h("span", null, finding.message));
}
/** Cut a line where a colour or an operation begins or ends; the innermost operation owns its piece. */
function pieces(raw, colours, here, line) {
  const points = Array.from(raw);
  const units = points.length === raw.length ? null : points.reduce((at, point) => (at.push(at[at.length - 1] + point.length), at), [0]);
  const unit = (column) => { const index = Math.max(0, Math.min(points.length, column - 1)); return units ? units[index] : index; };
  const spans = here.map((operation) => ({ operation, start: operation.line === line ? unit(operation.column) : raw.length - raw.trimStart().length, end: operation.endLine === line ? unit(operation.endColumn) : raw.length }));
  const cuts = new Set([0, raw.length]);
  for (const [start, end] of colours) cuts.add(start).add(end);
  for (const span of spans) cuts.add(span.start).add(span.end);
  const sorted = [...cuts].sort((a, b) => a - b);
  const out = [];
  for (let i = 0; i + 1 < sorted.length; i += 1) {
    const [start, end] = [sorted[i], sorted[i + 1]];
    const colour = colours.find((mark) => mark[0] <= start && end <= mark[1]);
    const text = raw.slice(start, end);
    const owners = spans.filter((span) => span.start <= start && end <= span.end);
    const content = colour ? h("span", { class: colour[2] }, text) : plain(text);
    if (!owners.length) { out.push(content); continue; }
    owners.sort((a, b) => RANK.get(a.operation.ownership) - RANK.get(b.operation.ownership) || a.end - a.start - (b.end - b.start));
    const heavy = owners[0].operation.ownership === "rejected" ? owners[0] : owners.reduce((a, b) => (b.end - b.start < a.end - a.start ? b : a));
    const operation = heavy.operation;
    out.push(h("span", { class: "op c-" + operation.ownership + (operation === state.operation ? " on" : ""), title: operation.ownership + (operation.hazard ? " (" + operation.hazard + ")" : "") + ": " + operation.name, on: click(() => pick(operation)) }, content));
  }
  return out;
}
function pick(operation) {
  const finding = currentView().findings.find((item) => item.file === operation.file && item.line === operation.line && item.column === operation.column && item.name === operation.hazard);
  if (finding) selectFinding(finding); else { const top = $("code").scrollTop; select({ owner: operation.owner, operation, line: operation.line }); $("code").scrollTop = top; }
}
