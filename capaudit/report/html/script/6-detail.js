// The right pane: one finding, one operation, or the function at hand.
function renderDetail(node) {
  const pane = $("detail");
  pane.replaceChildren();
  if (state.finding) pane.append(...findingDetail(state.finding));
  else if (state.operation) pane.append(...operationDetail(state.operation));
  else if (node) pane.append(...functionDetail(node));
}
const section = (title, ...content) => [h("h4", null, title), ...content];
function place(file, line, text) { return link(text || file + ":" + line, () => showPlace(file, line), { class: "link" }); }
function hop(item, index) {
  const known = currentView().byOwner.has(item.function);
  const name = shortName(item.function)[0];
  return h("li", null, known ? link(name, () => select({ owner: item.function }), null) : name, h("small", null, (index ? "called at " : "defined at ") + item.file + ":" + item.line));
}
function findingDetail(finding) {
  const list = orderedFindings();
  const at = list.indexOf(finding);
  const out = [
    h("div", { class: "pager" }, h("span", null, at < 0 ? "outside the filters" : at + 1 + " of " + number(list.length)), h("button", { type: "button", class: "tool", title: "Previous finding (p)", on: click(() => step(-1)) }, "\u2190 Previous"), h("button", { type: "button", class: "tool", title: "Next finding (n)", on: click(() => step(1)) }, "Next \u2192")),
    h("h3", { class: finding.ownership }, finding.code + " " + finding.name),
    h("div", { class: "tags" }, h("span", { class: "tag" }, finding.ownership), h("span", { class: "tag" }, finding.confidence), finding.evidence === "not-probed" ? null : h("span", { class: "tag " + finding.evidence }, finding.evidence), finding.severity && finding.severity !== "error" ? h("span", { class: "tag" }, finding.severity) : null, finding.baseline_state ? h("span", { class: "tag" }, "baseline: " + finding.baseline_state) : null),
    h("p", null, finding.message),
  ];
  if (finding.text) out.push(h("code", { class: "snippet" }, finding.text));
  if (finding.remedy) out.push(...section("Instead", h("p", { class: "remedy" }, finding.remedy)));
  for (const fix of finding.fixes || []) out.push(...section(fix.safe ? "Fix (--fix)" : "Fix (--fix --unsafe-fixes)", fixLines(fix), h("p", null, fix.message)));
  if (finding.suppression) out.push(...section("Suppressed", h("p", null, finding.suppression.reason, h("small", null, finding.suppression.file + ":" + finding.suppression.line))));
  if (finding.why && finding.why.length) out.push(...section("Because", h("ol", { class: "steps" }, finding.why.map((text) => h("li", null, text)))));
  if (finding.call_path && finding.call_path.length) out.push(...section("Reached by", h("ol", { class: "steps" }, finding.call_path.map(hop))));
  for (const related of finding.related || []) out.push(...section("See also", h("p", null, related.message, h("small", null, place(related.file, related.line)))));
  out.push(...evidenceDetail(finding));
  out.push(...section("Place", h("p", null, finding.file + ":" + finding.line + ":" + finding.column, h("small", null, "fingerprint " + finding.fingerprint))));
  return out;
}
/** The lines that a fix changes, before and after. */
function fixLines(fix) {
  const out = [];
  for (const edit of fix.edits) {
    const before = sourceLines(edit.file, edit.line, edit.end_line);
    if (!before) { out.push(["+", edit.text]); continue; }
    const points = before.map((line) => Array.from(line));
    const last = points[points.length - 1];
    const after = points[0].slice(0, edit.column - 1).join("") + edit.text + last.slice(edit.end_column - 1).join("");
    const indent = Math.min(...[...before, ...after.split("\n")].map((line) => line.length - line.trimStart().length));
    for (const line of before) out.push(["-", line.slice(indent)]);
    for (const line of after.split("\n")) out.push(["+", line.slice(indent)]);
  }
  return h("code", { class: "snippet diff" }, out.map(([sign, line]) => h("span", { class: sign === "+" ? "plus" : "minus" }, sign + " " + line)));
}
function evidenceDetail(finding) {
  const events = eventsAt.get(finding.file + ":" + finding.line) || [];
  const seen = finding.observation;
  if (!events.length && !seen) return [];
  const rows = [];
  if (seen) rows.push(h("li", null, finding.evidence + ": " + (seen.detail || "no details") + (seen.count ? " \u00d7" + seen.count : ""), h("small", null, [seen.document, seen.mode, seen.stale ? "the function reads differently now" : ""].filter(Boolean).join(" \u00b7 "))));
  for (const event of events) rows.push(h("li", null, event.kind + " \u00d7" + number(event.count) + (event.detail ? ": " + event.detail : ""), h("small", null, [event.document, event.mode, event.hazard, nodesOf(event) ? Object.entries(event.nodes).map(([kind, count]) => count + " " + kind).join(", ") : ""].filter(Boolean).join(" \u00b7 "))));
  return section("Evidence", h("ul", null, rows));
}
function operationDetail(operation) {
  return [
    h("h3", { class: operation.ownership }, operation.ownership), h("p", null, operation.name), h("code", { class: "snippet" }, operation.text),
    operation.reason ? section("Because", h("p", null, operation.reason)) : [], section("Owner", h("p", null, operation.owner, h("small", null, operation.file + ":" + operation.line + ":" + operation.column))), evidenceDetail({ ...operation, observation: null }),
  ].flat(Infinity);
}
function functionDetail(node) {
  const wanted = words();
  const shown = node.findings.filter((finding) => passes(finding, wanted));
  const calls = [...new Map(node.callees.map((call) => [call.node, call])).values()];
  return [
    h("h3", null, node.name), h("p", { class: "what" }, node.rest),
    h("p", null, spoken(node.own), h("small", null, "with everything below it: " + spoken(node.sum))),
    shown.length ? section(plural(shown.length, "finding") + " here", h("ul", null, shown.map((finding) => h("li", null, link(finding.code + " " + finding.name, () => selectFinding(finding)), h("small", null, "line " + finding.line + ": " + finding.message))))) : [],
    calls.length ? section("Calls " + plural(calls.length, "function"), h("ul", null, calls.map((call) => h("li", null, call.node.sum.rejected ? h("i", { class: "glyph rejected" }, "\u25b2") : null, link(call.node.name, () => select({ owner: call.node.key })), h("small", null, "line " + call.line + " \u00b7 " + call.node.rest))))) : [],
    node.callers.length ? section("Called from " + plural(node.callers.length, "place"), h("ul", null, node.callers.map((caller) => h("li", null, link(shortName(caller.owner)[0], () => select({ owner: caller.owner, line: caller.line })), h("small", null, caller.file + ":" + caller.line))))) : [],
  ].flat(Infinity);
}
