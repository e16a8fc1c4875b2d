// Elements for Markdown. Text goes in as text nodes only, so that nothing an agent writes can become markup.

import { copyButton, h } from "/static/dom.js";
import { inline } from "/static/inline.js";
import { blocks } from "/static/markdown.js";

// What a container shows, so that an answer that grows changes its last block only: no flicker, no lost selection.
const shown = new WeakMap();

export function render(container, text) {
  const before = shown.get(container) ?? [];
  const now = blocks(text).map((block, place) => {
    const old = before[place];
    if (old?.block.raw === block.raw) return old;
    if (old?.block.kind === "code" && block.kind === "code" && old.block.language === block.language) {
      old.node.querySelector("code").textContent = block.text;
      return { block, node: old.node };
    }
    const node = build(block);
    if (old) old.node.replaceWith(node);
    else container.append(node);
    return { block, node };
  });
  for (const { node } of before.slice(now.length)) node.remove();
  shown.set(container, now);
}

function build(block) {
  switch (block.kind) {
    case "heading":
      // The page has its own first and second level.
      return h(`h${Math.min(block.level + 2, 6)}`, {}, ...spans(block.text));
    case "code":
      return buildCode(block);
    case "quote":
      return h("blockquote", {}, ...block.blocks.map(build));
    case "list":
      return buildList(block);
    case "table":
      return buildTable(block);
    case "rule":
      return h("hr");
    default:
      return h("p", {}, ...spans(block.text));
  }
}

function buildCode({ language, text }) {
  const code = h("code", {}, text);
  const head = h("figcaption", {}, h("span", {}, language || "text"), copyButton(() => code.textContent));
  return h("figure", { class: "code" }, head, h("pre", { tabindex: 0 }, code));
}

function buildList({ ordered, start, loose, items }) {
  const rows = items.map((inner) => {
    const [first, ...rest] = inner;
    if (loose || first?.kind !== "paragraph") return h("li", {}, ...inner.map(build));
    return h("li", {}, ...spans(ticked(first.text)), ...rest.map(build));
  });
  return h(ordered ? "ol" : "ul", { start: ordered && start !== 1 ? start : null }, ...rows);
}

/** The box of a task list. */
function ticked(text) {
  return text.replace(/^\[([ xX])\] /, (_, mark) => (mark === " " ? "☐ " : "☑ "));
}

function buildTable({ align, head, rows }) {
  const row = (tag) => (cells) =>
    h("tr", {}, ...cells.map((cell, place) => h(tag, { class: align[place] }, ...spans(cell))));
  const table = h("table", {}, h("thead", {}, row("th")(head)), h("tbody", {}, ...rows.map(row("td"))));
  return h("div", { class: "table", tabindex: 0 }, table);
}

function spans(text) {
  return inline(text).map(span);
}

function span(node) {
  if (typeof node === "string") return node;
  if (node.kind === "code") return h("code", {}, node.text);
  const children = (node.children ?? []).map(span);
  if (node.kind !== "link") return h(node.kind, {}, ...children);
  return h("a", { href: node.href, target: "_blank", rel: "noopener noreferrer" }, ...children);
}
