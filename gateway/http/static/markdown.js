// Markdown to a tree of plain values; render.js makes elements of it. Nothing here touches the document.
// Each step is linear in the text: an answer is parsed again whenever it grows, and nobody chose its content.

const DEEPEST = 8;
const FENCE = /^ {0,3}(`{3,}|~{3,})[ \t]*([^\s`]*)[^`]*$/;
const HEADING = /^ {0,3}(#{1,6})(?:[ \t]+(.*))?$/;
const RULE = /^ {0,3}([-*_])[ \t]*(?:\1[ \t]*){2,}$/;
const QUOTE = /^ {0,3}> ?/;
const ITEM = /^([ \t]*)([-*+]|\d{1,9}[.)])(?:[ \t]+(.*))?$/;
const TABLE_RULE = /^ {0,3}\|?[ \t]*:?-+:?[ \t]*(?:\|[ \t]*:?-+:?[ \t]*)*\|?[ \t]*$/;

const blank = (line) => line.trim() === "";

/** How far a line is indented; a tab counts as four. */
function indent(line) {
  let width = 0;
  for (const char of line) {
    if (char !== " " && char !== "\t") break;
    width += char === "\t" ? 4 : 1;
  }
  return width;
}

/** The line, indented that much less. */
function outdent(line, width) {
  const left = Math.max(indent(line) - width, 0);
  return " ".repeat(left) + line.trimStart();
}

/** The blocks of a text, each with the source (`raw`) that it was made from. */
export function blocks(text) {
  return parse(text.replace(/\r\n?/g, "\n").split("\n"), 0);
}

function parse(lines, depth) {
  const found = [];
  let at = 0;
  while (at < lines.length) {
    if (blank(lines[at])) {
      at += 1;
      continue;
    }
    const [block, next] = take(lines, at, depth);
    block.raw = lines.slice(at, next).join("\n");
    found.push(block);
    at = next;
  }
  return found;
}

function take(lines, at, depth) {
  const line = lines[at];
  const fence = FENCE.exec(line);
  if (fence) return takeCode(lines, at, fence);
  const heading = HEADING.exec(line);
  if (heading) return [{ kind: "heading", level: heading[1].length, text: closed(heading[2] ?? "") }, at + 1];
  if (RULE.test(line)) return [{ kind: "rule" }, at + 1];
  if (depth < DEEPEST) {
    if (QUOTE.test(line)) return takeQuote(lines, at, depth);
    const item = ITEM.exec(line);
    if (item && indent(line) < 4) return takeList(lines, at, depth);
  }
  if (isTable(lines, at)) return takeTable(lines, at);
  let end = at + 1;
  while (end < lines.length && !blank(lines[end]) && !interrupts(lines, end, depth)) end += 1;
  return [{ kind: "paragraph", text: lines.slice(at, end).map((each) => each.trim()).join("\n") }, end];
}

/** Whether a line ends the paragraph before it. A number that is not 1 is more likely prose. */
function interrupts(lines, at, depth) {
  const line = lines[at];
  if (FENCE.test(line) || HEADING.test(line) || RULE.test(line) || isTable(lines, at)) return true;
  if (depth >= DEEPEST) return false;
  const item = ITEM.exec(line);
  return QUOTE.test(line) || (item?.[3] !== undefined && indent(line) < 4 && !/^(?!1[.)])\d/.test(item[2]));
}

function takeCode(lines, at, [, mark, language]) {
  const shift = indent(lines[at]);
  const body = [];
  let end = at + 1;
  for (; end < lines.length; end += 1) {
    const line = lines[end].trim();
    if (line.length >= mark.length && line === mark[0].repeat(line.length)) break;
    body.push(shift ? outdent(lines[end], shift) : lines[end]);
  }
  return [{ kind: "code", language, text: body.join("\n") }, Math.min(end + 1, lines.length)];
}

/** A heading without the marks that may close it. */
function closed(text) {
  const trimmed = text.trim();
  let end = trimmed.length;
  while (end > 0 && trimmed[end - 1] === "#") end -= 1;
  return end === 0 || trimmed[end - 1] === " " ? trimmed.slice(0, end).trim() : trimmed;
}

function takeQuote(lines, at, depth) {
  let end = at;
  while (end < lines.length && QUOTE.test(lines[end])) end += 1;
  const inner = lines.slice(at, end).map((line) => line.replace(QUOTE, ""));
  return [{ kind: "quote", blocks: parse(inner, depth + 1) }, end];
}

function takeList(lines, at, depth) {
  const [, , mark] = ITEM.exec(lines[at]);
  const ordered = /\d/.test(mark);
  const list = { kind: "list", ordered, start: ordered ? parseInt(mark, 10) : 1, loose: false, items: [] };
  let gap = false;
  while (at < lines.length) {
    const item = ITEM.exec(lines[at]);
    if (!item || indent(lines[at]) > 3 || item[2].at(-1) !== mark.at(-1) || RULE.test(lines[at])) break;
    list.loose ||= gap;
    let inner;
    [inner, at, gap] = takeItem(lines, at, item);
    list.items.push(parse(inner, depth + 1));
  }
  return [list, at];
}

/** The lines of one item, what comes after it, and whether a blank line stood between. */
function takeItem(lines, at, [, before, mark, first = ""]) {
  const outer = indent(before);
  const width = outer + mark.length + 1;
  const inner = [first];
  let end = at + 1;
  let gap = false;
  for (; end < lines.length; end += 1) {
    const line = lines[end];
    if (blank(line)) {
      gap = true;
      continue;
    }
    const deep = indent(line);
    // Models indent nested lists by two spaces as often as by the width that the rules ask for.
    const belongs = deep >= width || (deep >= outer + 2 && ITEM.test(line));
    const goesOn = !gap && !ITEM.test(line) && !interrupts(lines, end, 0);
    if (!belongs && !goesOn) break;
    if (gap) inner.push("");
    gap = false;
    inner.push(outdent(line, width));
  }
  return [inner, end, gap];
}

function isTable(lines, at) {
  const next = lines[at + 1];
  if (next === undefined || !lines[at].includes("|") || !next.includes("-") || !TABLE_RULE.test(next)) return false;
  return cells(lines[at]).length === cells(next).length;
}

function takeTable(lines, at) {
  const align = cells(lines[at + 1]).map((cell) => {
    if (cell.endsWith(":")) return cell.startsWith(":") ? "center" : "right";
    return "left";
  });
  let end = at + 2;
  while (end < lines.length && lines[end].includes("|")) end += 1;
  const fit = (row) => align.map((_, place) => row[place] ?? "");
  const rows = lines.slice(at + 2, end).map((line) => fit(cells(line)));
  return [{ kind: "table", align, head: fit(cells(lines[at])), rows }, end];
}

/** The cells of a row; a bar after a backslash or in a code span is text. */
function cells(line) {
  const trimmed = line.trim();
  const found = [""];
  let code = false;
  for (let at = trimmed.startsWith("|") ? 1 : 0; at < trimmed.length; at += 1) {
    const char = trimmed[at];
    if (char === "`") code = !code && trimmed.indexOf("`", at + 1) > 0;
    if (char === "\\" && trimmed[at + 1] === "|") found[found.length - 1] += trimmed[++at];
    else if (char === "|" && !code) found.push("");
    else found[found.length - 1] += char;
  }
  if (found.length > 1 && found.at(-1) === "") found.pop();
  return found.map((cell) => cell.trim());
}
