// The inside of a line of Markdown: code, emphasis, links. One pass, with a stack of what is still open.

const ESCAPABLE = /[!-/:-@[-`{-~]/;
const WORD = /[\p{L}\p{N}]/u;
const TARGET = /\([ \n]*<?([^\s<>()]*(?:\([^\s<>()]*\)[^\s<>()]*)*)>?(?:[ \n]+"[^"]*")?[ \n]*\)/y;
const ADDRESS = /https?:\/\/[^\s<>"'`]{1,2000}/y;
const KINDS = { "*": { 1: "em", 2: "strong" }, _: { 1: "em", 2: "strong" }, "~": { 2: "del" } };

/** Only addresses that a click may open; everything else stays text. */
export function safeHref(text) {
  try {
    const url = new URL(text);
    return ["http:", "https:", "mailto:"].includes(url.protocol) ? url.href : null;
  } catch {
    return null;
  }
}

/** Nodes: strings, `{kind: "br"}`, `{kind: "code", text}`, `{kind: "link", href, children}`, `{kind: "em", …}`. */
export function inline(text) {
  return new Inline(text).run();
}

class Inline {
  constructor(text) {
    this.text = text;
    this.at = 0;
    this.out = [];
    this.marks = []; // open emphasis, as places in `out`
    this.brackets = []; // open links, likewise
    this.noCode = new Set(); // lengths of backtick runs that nothing closes from here on
  }

  run() {
    while (this.at < this.text.length) this.step();
    return tidy(this.out);
  }

  step() {
    const { text, at } = this;
    const char = text[at];
    switch (char) {
      case "\\":
        if (ESCAPABLE.test(text[at + 1] ?? "")) return this.say(text[at + 1], 2);
        return this.say(char);
      case "\n":
        return this.put({ kind: "br" }, 1);
      case "`":
        return this.code();
      case "*":
      case "_":
      case "~":
        return this.emphasis(char);
      case "!":
      case "[":
        return this.bracket(char);
      case "]":
        return this.link();
      case "h":
        return this.address(at) || this.say(char);
      case "<":
        return this.address(at + 1) || this.say(char);
      default:
        return this.say(char);
    }
  }

  say(words, length = words.length) {
    if (typeof this.out.at(-1) === "string") this.out.push(this.out.pop() + words);
    else this.out.push(words);
    this.at += length;
  }

  put(node, length) {
    this.out.push(node);
    this.at += length;
  }

  runLength(char) {
    let end = this.at;
    while (this.text[end] === char) end += 1;
    return end - this.at;
  }

  code() {
    const length = this.runLength("`");
    const mark = "`".repeat(length);
    let from = this.at + length;
    while (!this.noCode.has(length)) {
      const end = this.text.indexOf(mark, from);
      if (end < 0) {
        this.noCode.add(length);
        break;
      }
      let after = end + length;
      while (this.text[after] === "`") after += 1;
      if (after === end + length) {
        const inner = this.text.slice(this.at + length, end).replace(/\n/g, " ");
        const padded = inner.startsWith(" ") && inner.endsWith(" ") && inner.trim() !== "";
        return this.put({ kind: "code", text: padded ? inner.slice(1, -1) : inner }, after - this.at);
      }
      from = after;
    }
    return this.say(mark);
  }

  emphasis(char) {
    const length = this.runLength(char);
    const before = this.text[this.at - 1] ?? " ";
    const after = this.text[this.at + length] ?? " ";
    // Within a word an underscore is part of the word.
    const inWord = char === "_" && WORD.test(before) && WORD.test(after);
    if (length > 3 || (char === "~" && length !== 2) || inWord) return this.say(char.repeat(length));
    const opens = after.trim() !== "" && (char !== "_" || !WORD.test(before));
    const closes = before.trim() !== "" && (char !== "_" || !WORD.test(after));
    for (const part of length === 3 ? (closes ? [1, 2] : [2, 1]) : [length]) this.mark(char, part, opens, closes);
    return undefined;
  }

  mark(char, length, opens, closes) {
    const open = closes ? this.marks.findLastIndex((each) => each.char === char && each.length === length) : -1;
    if (open >= 0 && this.marks[open].place < this.out.length - 1) {
      const { place } = this.marks[open];
      this.marks.length = open;
      while (this.brackets.at(-1) > place) this.brackets.pop();
      const children = tidy(this.out.splice(place + 1));
      this.out[place] = { kind: KINDS[char][length], children };
      this.at += length;
    } else if (opens && this.marks.length < 100) {
      // Kept apart from the text around it until it is known what it is.
      this.marks.push({ char, length, place: this.out.length });
      this.put({ kind: "mark", text: char.repeat(length) }, length);
    } else this.say(char.repeat(length));
  }

  bracket(char) {
    const image = char === "!";
    if (image && this.text[this.at + 1] !== "[") return this.say(char);
    this.brackets.push(this.out.length);
    // A picture would be a request to somebody else's server: it becomes a link.
    return this.put({ kind: "mark", text: image ? "![" : "[" }, image ? 2 : 1);
  }

  link() {
    const place = this.brackets.pop();
    TARGET.lastIndex = this.at + 1;
    const target = place === undefined ? null : TARGET.exec(this.text);
    const href = target && safeHref(target[1]);
    if (!href) return this.say("]");
    this.marks = this.marks.filter((each) => each.place < place);
    this.brackets = [];
    const children = plain(tidy(this.out.splice(place + 1)));
    this.out.pop();
    return this.put({ kind: "link", href, children: children.length ? children : [href] }, 1 + target[0].length);
  }

  /** An address that stands there as it is, bare or in angles; true if there is one. */
  address(from) {
    ADDRESS.lastIndex = from;
    const found = WORD.test(this.text[from - 1] ?? " ") ? null : ADDRESS.exec(this.text)?.[0];
    if (!found) return false;
    // What closes the sentence around it is not part of it.
    const ends = found.includes("(") ? /[.,;:!?*_~\]}|]/ : /[.,;:!?*_~\])}|]/;
    let end = found.length;
    while (ends.test(found[end - 1])) end -= 1;
    const href = safeHref(found.slice(0, end));
    if (!href) return false;
    const angles = from > this.at && this.text[from + end] === ">";
    if (from > this.at && !angles) this.say("<");
    this.put({ kind: "link", href, children: [found.slice(0, end)] }, angles ? end + 2 : end);
    return true;
  }
}

/** What stayed open was text after all. */
function tidy(nodes) {
  const tidied = [];
  for (const node of nodes) {
    const words = typeof node === "string" ? node : node.kind === "mark" ? node.text : null;
    if (words !== null && typeof tidied.at(-1) === "string") tidied.push(tidied.pop() + words);
    else tidied.push(words ?? node);
  }
  return tidied;
}

/** Without links: a link has none inside. */
function plain(nodes) {
  return nodes.flatMap((node) => {
    if (node.kind === "link") return plain(node.children);
    return node.children ? [{ ...node, children: plain(node.children) }] : [node];
  });
}
