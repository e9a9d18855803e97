// Elements are built, never parsed from text: whatever stands in source, names or messages stays text.
function h(tag, props, ...children) {
  const element = document.createElement(tag);
  for (const [key, value] of Object.entries(props || {})) {
    if (value === undefined || value === null || value === false) continue;
    if (key === "on") for (const [name, handler] of Object.entries(value)) element.addEventListener(name, handler);
    else if (key === "style") for (const [name, setting] of Object.entries(value)) element.style.setProperty(name, setting);
    else element.setAttribute(key, value === true ? "" : plain(value));
  }
  for (const child of children.flat(Infinity)) if (child !== null && child !== undefined && child !== false) element.append(child instanceof Node ? child : plain(child));
  return element;
}
const $ = (id) => document.getElementById(id);
const glyph = (ownership) => h("i", { class: "glyph " + ownership, "aria-hidden": "true" }, GLYPH.get(ownership) || "\u25a0");
const number = (value) => value.toLocaleString("en-US");
const plural = (count, word, many) => number(count) + " " + (count === 1 ? word : many || word + "s");
const click = (handler) => ({ click: handler });
const link = (text, handler, props) => h("button", { type: "button", class: "link", on: click(handler), ...props }, text);

function share(counts, total, props) {
  const bar = h("div", props);
  for (const [name] of CLASSES) if (counts[name]) bar.append(h("i", { class: "fill-" + name, style: { width: (100 * counts[name]) / Math.max(total, 1) + "%" } }));
  return bar;
}
function spoken(counts) { return CLASSES.filter(([name]) => counts[name]).map(([name]) => counts[name] + " " + name).join(", ") || "no operations"; }

const KEYWORDS = new Set("False None True and as assert async await break class continue def del elif else except finally for from global if import in is lambda nonlocal not or pass raise return try while with yield match case".split(" "));
const TOKEN = /([rRbBuUfFtT]{0,3})("""|'''|"|')|#.*|@[\w.]+|\b\d[\w.]*\b|[^\W\d]\w*/gu;
/** Colour one line of Python: [start, end, kind] triples; `open` is the quote that an earlier line left open. */
function highlight(line, open) {
  const marks = [];
  let at = 0;
  const close = (quote, from, start) => {
    for (let i = from; i < line.length; i += 1) {
      if (line[i] === "\\") { i += 1; continue; }
      if (line.startsWith(quote, i)) { marks.push([start, i + quote.length, "s"]); return i + quote.length; }
    }
    marks.push([start, line.length, "s"]);
    return -1;
  };
  if (open) { at = close(open, 0, 0); if (at < 0) return [marks, open]; }
  TOKEN.lastIndex = at;
  for (let match; (match = TOKEN.exec(line)); ) {
    const text = match[0];
    if (match[2]) {
      const end = close(match[2], match.index + text.length, match.index);
      if (end < 0) return [marks, match[2].length === 3 ? match[2] : null];
      TOKEN.lastIndex = end;
    } else if (text[0] === "#") { marks.push([match.index, line.length, "c"]); break; }
    else if (text[0] === "@" && !line.slice(0, match.index).trim()) marks.push([match.index, match.index + text.length, "a"]);
    else if (/\d/.test(text[0])) marks.push([match.index, match.index + text.length, "d"]);
    else if (KEYWORDS.has(text)) marks.push([match.index, match.index + text.length, "k"]);
  }
  return [marks, null];
}
