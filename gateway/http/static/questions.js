// What the agent of the open chat asks: the request in words, and a button for each answer.

import * as api from "/static/api.js";
import { $, h } from "/static/dom.js";

let shown = "";

/** Draw what waits for an answer. `failed` is told what did not work. */
export async function refresh(session, here, failed) {
  let waiting;
  try {
    waiting = await api.questions(session);
  } catch {
    return; // the stream notices too
  }
  if (here()) draw(waiting, failed);
}

export function draw(waiting, failed = () => {}) {
  const ids = waiting.map((each) => each.id).join();
  if (ids === shown) return;
  shown = ids;
  $("questions").hidden = !waiting.length;
  $("questions").replaceChildren(...waiting.map((question) => box(question, failed)));
}

function box(question, failed) {
  const buttons = question.options.map(({ number, label }) =>
    h("button", { type: "button", class: "chip", onclick: () => choose(question, number, failed) }, label),
  );
  return h("div", { class: "question", role: "group", "aria-label": "The agent asks for permission" }, h("pre", {}, question.text), h("p", { class: "chips" }, ...buttons));
}

async function choose(question, number, failed) {
  try {
    await api.choose(question.id, number);
  } catch (problem) {
    failed(problem);
  }
}
