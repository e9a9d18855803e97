// The head, the tabs, the keys, and the first look.
const TABS = [["tree", "Call tree"], ["findings", "Findings"], ["unresolved", "Unresolved"], ["evidence", "Evidence"]];
const KEYS = [
  [["n", "p"], "next and previous finding"], [["/"], "filter by owner or file"], [["1", "\u2026", "5"], "show or hide a class (with Shift: that class alone)"],
  [["g"], "call tree, then findings, unresolved calls, evidence"], [["\u2191", "\u2193", "\u2190", "\u2192"], "move, close and open in the call tree"], [["Enter"], "from the call tree into the code"],
  [["t"], "light or dark"], [["Esc"], "clear the filters"], [["?"], "this list"],
];
function renderFrame() {
  const all = currentView();
  const what = $("what");
  what.replaceChildren();
  if (data.boundaries.length > 1) what.append(h("select", { id: "boundary", "aria-label": "Boundary", on: { change: (event) => { state.boundary = event.target.value; start(); } } }, data.boundaries.map((boundary) => h("option", { value: boundary.name, selected: boundary.name === state.boundary }, boundary.name))));
  const boundary = data.boundaries.find((item) => item.name === state.boundary);
  if (boundary) what.append(data.boundaries.length > 1 ? " " : "", h("b", null, shortName(boundary.entry.replace(":", "."))[0]), " \u00b7 " + boundary.capture + " capture, " + boundary.origin + " \u00b7 " + plural(all.byOwner.size, "function")), (what.title = boundary.entry);
  else what.append("No boundary was audited");
  const total = {};
  const wanted = words();
  const counted = data.operations.length ? operations.filter((operation) => operation.boundary === state.boundary) : all.findings;
  const hazards = new Map();
  for (const item of counted) if (ownerWanted(item, wanted)) total[item.ownership] = (total[item.ownership] || 0) + 1;
  for (const finding of all.findings) if (ownerWanted(finding, wanted)) hazards.set(finding.name, (hazards.get(finding.name) || 0) + 1);
  for (const name of state.hazards) if (!hazards.has(name)) hazards.set(name, 0);
  const sum = Object.values(total).reduce((a, b) => a + b, 0);
  const bar = share(total, sum, { class: "share", id: "share", role: "img", "aria-label": spoken(total) });
  $("share").replaceWith(bar);
  $("filters").replaceChildren(
    ...CLASSES.map(([name, sign], index) => h("button", { type: "button", class: "chip class", "data-class": name, "aria-pressed": String(state.classes.has(name)), title: "Show or hide (" + (index + 1) + "); with Shift alone", on: click((event) => toggleClass(name, event.shiftKey)) }, h("i", { class: "glyph " + name, "aria-hidden": "true" }, sign), name, h("b", null, number(total[name] || 0)))),
    h("span", { class: "gap", "aria-hidden": "true" }),
    ...[...hazards].sort((a, b) => b[1] - a[1] || (a[0] < b[0] ? -1 : 1)).map(([name, count]) => h("button", { type: "button", class: "chip hazard", "data-hazard": name, "aria-pressed": String(state.hazards.has(name)), on: click(() => toggleHazard(name)) }, name, h("b", null, number(count)))));
}
function toggleClass(name, alone) {
  if (alone) state.classes = new Set(state.classes.size === 1 && state.classes.has(name) ? CLASSES.map(([each]) => each) : [name]);
  else if (state.classes.has(name)) state.classes.delete(name); else state.classes.add(name);
  render();
}
function toggleHazard(name) { if (state.hazards.has(name)) state.hazards.delete(name); else state.hazards.add(name); openMatches(); render(); }
function clearFilters() { Object.assign(state, { classes: new Set(CLASSES.map(([name]) => name)), hazards: new Set(), query: "" }); $("query").value = ""; render(); }
/** A filter that leaves few functions opens the way to them. */
function openMatches() {
  if (!state.query.trim() && !state.hazards.size) return;
  rollUp();
  const found = [...currentView().byOwner.values()].filter((node) => Object.keys(node.own).length);
  if (found.length <= 150) found.forEach(reveal);
}
function renderList() {
  const list = $("list");
  const top = list.scrollTop;
  const kept = list.dataset.tab === state.tab;
  const focused = document.activeElement && list.contains(document.activeElement);
  const all = currentView();
  const counts = { tree: all.byOwner.size, findings: shownFindings().length, unresolved: all.unresolved.length, evidence: data.events.length };
  $("tabs").replaceChildren(...TABS.filter(([name]) => name !== "evidence" || data.events.length || data.evidence).map(([name, title]) => h("button", {
    type: "button", role: "tab", id: "tab-" + name, "aria-selected": String(name === state.tab), "aria-controls": "list", tabindex: name === state.tab ? "0" : "-1", on: { click: () => { state.tab = name; renderList(); }, keydown: tabKeys } }, title, h("span", null, number(counts[name])))));
  list.replaceChildren();
  list.dataset.tab = state.tab;
  ({ tree: renderTree, findings: renderFindings, unresolved: renderUnresolved, evidence: renderEvidence })[state.tab](list);
  list.scrollTop = kept ? top : 0;
  const current = list.querySelector(".current");
  if (current) { const [above, below] = [current.offsetTop - list.offsetTop, list.clientHeight]; if (above < list.scrollTop + 30 || above > list.scrollTop + below - 50) list.scrollTop = above - below / 2; if (focused) (current.matches("button") ? current : $("tree") || current).focus({ preventScroll: true }); }
}
function tabKeys(event) {
  const step_ = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
  if (step_) { nextTab(step_); event.preventDefault(); }
}
function nextTab(by) {
  const names = [...$("tabs").children].map((tab) => tab.id.slice(4));
  state.tab = names[(names.indexOf(state.tab) + by + names.length) % names.length];
  renderList();
  $("tab-" + state.tab).focus();
}
function render() {
  rollUp();
  const node = currentView().byOwner.get(state.owner) || null;
  renderFrame(); renderList(); renderHead(node); renderCode(node); renderDetail(node);
}
function start() {
  const all = currentView();
  state.open = new Set(all.roots.slice(0, 20).map((node) => node.key));
  if (!all.byOwner.has(state.owner)) Object.assign(state, { owner: all.roots.length ? all.roots[0].key : null, finding: null, operation: null, line: null });
  reveal(all.byOwner.get(state.owner));
  render();
}
function setTheme(name) {
  document.documentElement.dataset.theme = name;
  $("theme").textContent = name === "dark" ? "Light" : "Dark";
}
function switchTheme() {
  setTheme(document.documentElement.dataset.theme === "dark" ? "light" : "dark");
  try { localStorage.setItem("capaudit-theme", document.documentElement.dataset.theme); } catch { /* files may have no storage */ }
}
function firstTheme() {
  let kept = null;
  try { kept = localStorage.getItem("capaudit-theme"); } catch { /* as above */ }
  return kept || (matchMedia("(prefers-color-scheme: dark)").matches ? "dark" : "light");
}
function pageKeys(event) {
  if (event.ctrlKey || event.metaKey || event.altKey || $("help").open) return;
  const typing = /^(INPUT|SELECT|TEXTAREA)$/.test(event.target.tagName);
  if (event.key === "Escape") { if (typing) event.target.blur(); clearFilters(); return; }
  if (typing) return;
  const digit = /^Digit([1-5])$/.exec(event.code);
  if (digit) toggleClass(CLASSES[digit[1] - 1][0], event.shiftKey);
  else if (event.key === "n" || event.key === "j") step(1);
  else if (event.key === "p" || event.key === "k") step(-1);
  else if (event.key === "/") $("query").focus();
  else if (event.key === "g") nextTab(1);
  else if (event.key === "t") switchTheme();
  else if (event.key === "?") $("help").showModal();
  else return;
  event.preventDefault();
}
function splitters() {
  for (const [bar, name, sign] of [[document.querySelector(".split.first"), "--left", 1], [document.querySelector(".split.second"), "--right", -1]]) {
    const pane = () => (sign > 0 ? $("left") : $("right"));
    const set = (width) => document.querySelector("main").style.setProperty(name, Math.max(200, Math.min(innerWidth * 0.6, width)) + "px");
    bar.addEventListener("pointerdown", (event) => {
      const [from, width] = [event.clientX, pane().offsetWidth];
      const move = (next) => set(width + sign * (next.clientX - from));
      bar.setPointerCapture(event.pointerId);
      bar.addEventListener("pointermove", move);
      bar.addEventListener("pointerup", () => bar.removeEventListener("pointermove", move), { once: true });
      event.preventDefault();
    });
    bar.addEventListener("keydown", (event) => { const by = { ArrowLeft: -24, ArrowRight: 24 }[event.key]; if (by) { set(pane().offsetWidth + sign * by); event.preventDefault(); } });
  }
}
setTheme(firstTheme());
$("version").textContent = data.version;
$("help-keys").replaceChildren(...KEYS.flatMap(([keys, text]) => [h("dt", null, keys.map((key) => [h("kbd", null, key), " "])), h("dd", null, text)]));
if (data.note) { $("note").textContent = plain(data.note); $("note").hidden = false; }
$("theme").addEventListener("click", switchTheme);
$("keys").addEventListener("click", () => $("help").showModal());
$("query").addEventListener("input", (event) => { state.query = event.target.value; openMatches(); render(); });
document.addEventListener("keydown", pageKeys);
splitters();
recall();
start();
document.documentElement.dataset.ready = String(Math.round(performance.now()));
