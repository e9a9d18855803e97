// The left pane: call tree, findings, unresolved calls, evidence.
const MOST_ROWS = 3000;
function treeRows() {
  const rows = [];
  const walk = (nodes, level) => {
    const shown = nodes.filter((node) => node.visible);
    shown.forEach((node, index) => {
      if (rows.length >= MOST_ROWS) return;
      rows.push({ node, level, index: index + 1, size: shown.length, inner: node.children.some((child) => child.visible) });
      if (state.open.has(node.key)) walk(node.children, level + 1);
    });
  };
  walk(currentView().roots, 1);
  return rows;
}
function renderTree(list) {
  const rows = treeRows();
  if (!rows.length) { list.append(nothing("No function", data.functions.length)); return; }
  const tree = h("div", { class: "tree", role: "tree", tabindex: "0", "aria-label": "Call tree", id: "tree", on: { keydown: treeKeys } });
  rows.forEach(({ node, level, index, size, inner }, at) => {
    const current = node.key === state.owner;
    const opened = inner ? state.open.has(node.key) : null;
    const row = h("div", {
      class: "row" + (current ? " current" : "") + (node.sum.rejected ? "" : " quiet"), role: "treeitem", id: "row" + at, title: node.owner + "\n" + spoken(node.sum),
      "aria-level": level, "aria-posinset": index, "aria-setsize": size, "aria-expanded": opened === null ? null : String(opened), "aria-selected": String(current),
      style: { "padding-left": 6 + Math.min(level - 1, 24) * 14 + "px" }, on: click((event) => { if (event.target.closest(".twist") && inner) toggle(node); else select({ owner: node.key }); }),
    },
      h("span", { class: "twist", "aria-hidden": "true" }, inner ? (opened ? "\u25be" : "\u25b8") : ""),
      worst(node.own) ? glyph(worst(node.own)) : h("i", { class: "glyph cold-path", "aria-hidden": "true" }, "\u00b7"),
      h("span", { class: "name" }, labels(node.name, node.rest)[0]), h("span", { class: "where" }, labels(node.name, node.rest)[1]),
      ["rejected", "unresolved"].map((name) => h("span", { class: "slot" }, node.sum[name] ? h("span", { class: "count " + name, title: name }, number(node.sum[name])) : null)),
      share(node.sum, node.total, { class: node.total ? "bar" : "bar none", "aria-hidden": "true" }), h("span", { class: "total" }, node.total ? number(node.total) : ""));
    if (current) tree.setAttribute("aria-activedescendant", row.id);
    tree.append(row);
  });
  list.append(tree);
  if (rows.length >= MOST_ROWS) list.append(h("p", { class: "empty" }, "More rows are hidden; filter by owner or close a branch."));
}
const worst = (counts) => { const found = CLASSES.find(([name]) => counts[name]); return found ? found[0] : null; };
function toggle(node) { if (state.open.has(node.key)) state.open.delete(node.key); else state.open.add(node.key); renderList(); }
function treeKeys(event) {
  if (event.ctrlKey || event.metaKey || event.altKey) return;
  const rows = treeRows();
  const at = rows.findIndex((row) => row.node.key === state.owner);
  const here = rows[at];
  const go = (index) => { const row = rows[Math.max(0, Math.min(rows.length - 1, index))]; if (row) select({ owner: row.node.key }); };
  const open = here && state.open.has(here.node.key);
  switch (event.key) {
    case "ArrowDown": go(at + 1); break;
    case "ArrowUp": go(at < 0 ? 0 : at - 1); break;
    case "Home": go(0); break;
    case "End": go(rows.length - 1); break;
    case "ArrowRight": if (here && here.inner && !open) toggle(here.node); else if (here && here.inner) go(at + 1); break;
    case "ArrowLeft": if (here && here.inner && open) toggle(here.node); else if (here && here.node.parent) select({ owner: here.node.parent.key }); break;
    case "*": for (const row of rows) if (here && row.node.parent === here.node.parent) state.open.add(row.node.key); renderList(); break;
    case "Enter": $("code").focus(); break;
    default: return;
  }
  event.preventDefault();
  const tree = $("tree");
  if (tree) tree.focus();
}
function nothing(what, total) {
  return h("p", { class: "empty" }, total && filtered() ? [what + " passes the filters. ", link("Clear them", clearFilters)] : what + " here.");
}
function renderFindings(list) {
  const groups = groupedFindings();
  if (!groups.length) { list.append(nothing("No finding", currentView().findings.length)); return; }
  for (const [title, found] of groups) {
    list.append(h("div", { class: "group" }, h("i", { class: found[0].ownership }, GLYPH.get(found[0].ownership)), title, h("span", null, number(found.length))));
    for (const finding of found) list.append(h("button", {
      type: "button", class: "item" + (finding === state.finding ? " current" : ""), "aria-current": finding === state.finding ? "true" : null, "data-finding": finding.id, title: finding.message, on: click(() => selectFinding(finding)),
    },
      h("span", { class: "line1" }, h("code", null, finding.text || finding.message), finding.confidence === "certain" ? null : h("span", { class: "tag" }, finding.confidence), finding.evidence === "not-probed" ? null : h("span", { class: "tag " + finding.evidence }, finding.evidence)),
      h("span", { class: "at" }, finding.file + ":" + finding.line + (finding.owner === finding.file ? "" : "  \u00b7  " + shortName(finding.owner)[0]))));
  }
}
function renderUnresolved(list) {
  const wanted = words();
  const groups = new Map();
  for (const call of currentView().unresolved) {
    if (!ownerWanted(call, wanted)) continue;
    if (!groups.has(call.settle)) groups.set(call.settle, []);
    groups.get(call.settle).push(call);
  }
  if (!groups.size) { list.append(nothing("No unresolved call", currentView().unresolved.length)); return; }
  const ranked = [...groups].sort((a, b) => b[1].length - a[1].length || (a[0] < b[0] ? -1 : 1));
  for (const [settle, calls] of ranked) {
    list.append(h("div", { class: "group" }, h("i", { class: "unresolved" }, "?"), h("code", null, settle), h("span", null, "settles " + number(calls.length))));
    for (const call of calls) list.append(h("button", { type: "button", class: "item", on: click(() => select({ owner: call.owner, line: call.line })) },
      h("span", { class: "line1" }, h("code", null, call.text)), h("span", { class: "at" }, call.file + ":" + call.line + "  \u00b7  " + shortName(call.owner)[0])));
  }
}
function renderEvidence(list) {
  const wanted = words();
  const events = data.events.filter((event) => ownerWanted({ owner: event.function, file: event.file }, wanted));
  if (data.evidence) list.append(h("table", null, h("thead", null, h("tr", null, ["hazard", "confirmed", "refuted", "not run", "missed"].map((title, i) => h("th", { class: i ? "n" : null, scope: "col" }, title)))),
    h("tbody", null, data.evidence.rows.map((row) => h("tr", null, h("td", { class: "rule", title: row.code }, row.name), [row.confirmed, row.refuted, row.not_exercised, row.missed].map((value) => h("td", { class: "n" }, number(value))))))));
  const groups = new Map();
  for (const event of events) { const key = event.document + " \u00b7 " + event.kind; if (!groups.has(key)) groups.set(key, []); groups.get(key).push(event); }
  if (!groups.size && !data.evidence) { list.append(nothing("No evidence", data.events.length)); return; }
  for (const [title, found] of groups) {
    list.append(h("div", { class: "group" }, title, h("span", null, number(found.length))));
    for (const event of found) list.append(h("button", { type: "button", class: "item", on: click(() => showPlace(event.file, event.line)) },
      h("span", { class: "line1" }, h("code", null, event.detail || event.kind), event.hazard ? h("span", { class: "tag" }, event.hazard) : null, h("span", { class: "tag" }, "\u00d7" + number(event.count)), nodesOf(event) ? h("span", { class: "tag" }, plural(nodesOf(event), "node")) : null),
      h("span", { class: "at" }, event.file + ":" + event.line + "  \u00b7  " + event.function)));
  }
}
/** Show a line: in the innermost function of the boundary that holds it. */
function showPlace(file, line) {
  let best = null;
  for (const node of currentView().byOwner.values()) if (node.file === file && node.line <= line && line <= node.endLine && (!best || node.line > best.line)) best = node;
  if (best) select({ owner: best.key, line });
}
