// One message as an element, made once and brought up to date when its row changes.

import * as api from "/static/api.js";
import { copyButton, h, icon, timeOfDay, tooltipTime } from "/static/dom.js";
import { render } from "/static/render.js";

// As many characters of a text as a turn tells itself.
const SUMMARY = 1024;

/** What a row is to the eye: `user`, `agent`, `tool`, `plan`, `failed` or `system`. */
export function kindOf(row) {
  if (row.content.type !== "text") return row.content.type;
  if (row.role !== "system") return row.role;
  // The note of a turn that was not carried out is the only system text that belongs to a turn.
  return row.turn === null ? "system" : "failed";
}

/** An element for a row. `actions.retry(turn)` asks again what a turn asked. */
export function makeMessage(row, actions) {
  const kind = kindOf(row);
  const element = h("article", { class: `row ${kind}`, "data-id": row.id });
  const update = makers[kind](element, row, actions);
  update(row);
  return { element, update };
}

const makers = {
  user(element, row) {
    element.append(h("div", { class: "bubble", dir: "auto" }, row.content.text));
    element.append(h("footer", { class: "meta" }, timeOfDay(row.timestamp), " · ", icon("done"), "Sent"));
    return () => {};
  },

  agent(element, row) {
    let current = row;
    const body = h("div", { class: "markdown", dir: "auto" });
    const details = h("div", { class: "details", hidden: true });
    const meta = h("footer", { class: "meta" }, timeOfDay(row.timestamp), copyButton(() => current.content.text));
    if (row.turn !== null) meta.append(detailsButton(row, details));
    element.append(body, meta, details);
    return (next) => {
      current = next;
      render(body, next.content.text);
      element.classList.toggle("partial", next.content.partial === true);
      element.classList.toggle("incomplete", next.metadata.incomplete === true);
    };
  },

  tool(element) {
    const line = h("span", { class: "what" });
    const body = h("div", { class: "inside" });
    element.append(h("details", {}, h("summary", {}, icon("chevron"), line), body));
    return ({ content }) => {
      const done = Object.keys(content.result).length > 0;
      line.replaceChildren(h("b", {}, content.tool), " ", brief(content.args));
      element.classList.toggle("busy", !done);
      body.replaceChildren(json("Asked with", content.args), done ? json("Result", content.result) : "");
    };
  },

  plan(element) {
    const line = h("span", { class: "what" });
    const list = h("ol", {});
    element.append(h("details", {}, h("summary", {}, icon("chevron"), line), h("div", { class: "inside" }, list)));
    return ({ content: { steps } }) => {
      const done = steps.filter((step) => step.status === "completed").length;
      line.replaceChildren(h("b", {}, "Plan"), ` ${done} of ${steps.length} done`);
      list.replaceChildren(...steps.map((step) => h("li", { class: String(step.status ?? "") }, wording(step))));
    };
  },

  failed(element, row, actions) {
    const retry = h("button", { class: "again", type: "button" }, icon("again"), "Retry");
    retry.addEventListener("click", () => {
      retry.disabled = true; // one click, one turn
      actions.retry(row.turn);
    });
    element.append(h("p", {}, row.content.text), retry);
    // Only a matter of colour: who stopped it knows that nothing went wrong.
    element.classList.toggle("stopped", row.content.text.startsWith("Stopped"));
    return () => {};
  },

  system(element, row) {
    element.append(h("p", {}, row.content.text));
    return () => {};
  },
};

/** A message that is on its way: `sending`, `offline`, `queued`, or `failed` with what can be done about it. */
export function makeWaiting({ text, state, problem }, actions) {
  const words = { sending: "Sending…", offline: "Will be sent when the connection is back", queued: "Queued" }[state];
  const meta = h("footer", { class: "meta" }, words ?? problem);
  if (state === "failed") {
    meta.append(
      h("button", { class: "quiet", type: "button", onclick: actions.again }, icon("again"), "Try again"),
      h("button", { class: "quiet", type: "button", onclick: actions.edit }, "Edit"),
      h("button", { class: "quiet", type: "button", onclick: actions.discard }, "Discard"),
    );
  }
  return h("article", { class: `row user waiting ${state}` }, h("div", { class: "bubble", dir: "auto" }, text), meta);
}

function detailsButton(row, details) {
  const button = h("button", { class: "quiet", type: "button", "aria-expanded": "false" }, icon("info"), "Details");
  button.addEventListener("click", async () => {
    details.hidden = !details.hidden;
    button.setAttribute("aria-expanded", String(!details.hidden));
    if (!details.hidden) details.replaceChildren(...(await describe(row)));
  });
  return button;
}

/** What is known about a turn. Its full texts are loaded only when somebody asks for them. */
async function describe(row) {
  try {
    const turn = await api.turn(row.sessionId, row.turn);
    const tokens = (count) => (count === null ? "unknown" : String(count));
    const estimated = turn.usageSource === "estimated" ? " (estimated)" : "";
    const facts = {
      Turn: `${turn.sequenceNumber}, ${turn.status}${turn.attempts > 1 ? `, ${turn.attempts} attempts` : ""}`,
      Model: turn.openAIModel ?? "unknown",
      Tokens: `${tokens(turn.inputTokens)} in, ${tokens(turn.outputTokens)} out${estimated}`,
      Asked: tooltipTime(turn.creationDate),
      Took: duration(turn),
      Warnings: turn.warnings.join(" ") || null,
    };
    const list = Object.entries(facts).filter(([, value]) => value !== null);
    return [
      h("dl", {}, ...list.flatMap(([name, value]) => [h("dt", {}, name), h("dd", {}, value)])),
      payload("Instruction", turn.instructionSummary, turn.fullInstructionUrl),
      turn.fullAgentAnswerUrl ? payload("Answer", turn.agentAnswerSummary, turn.fullAgentAnswerUrl) : "",
    ];
  } catch (problem) {
    return [h("p", { class: "problem" }, problem.message)];
  }
}

function payload(name, summary, url) {
  const body = h("pre", { tabindex: 0, dir: "auto" }, summary);
  if ([...summary].length < SUMMARY) return h("section", {}, h("h3", {}, name), body);
  const all = h("button", { class: "quiet", type: "button" }, "Show the full text");
  all.addEventListener("click", async () => {
    const text = await api.text(url).catch((problem) => problem.message);
    body.textContent = text;
    all.replaceWith(copyButton(() => text));
  });
  return h("section", {}, h("h3", {}, name, all), body);
}

function duration({ creationDate, openAIResponseReceivedDate }) {
  if (openAIResponseReceivedDate === null) return null;
  const seconds = (new Date(openAIResponseReceivedDate) - new Date(creationDate)) / 1000;
  return seconds < 60 ? `${seconds.toFixed(1)} seconds` : `${Math.round(seconds / 6) / 10} minutes`;
}

/** The arguments of a call in a few words. */
function brief(args) {
  const values = Object.values(args).filter((value) => typeof value === "string" || typeof value === "number");
  const text = values.join(", ");
  return text.length > 120 ? `${text.slice(0, 119)}…` : text;
}

function json(name, value) {
  return h("section", {}, h("h3", {}, name), h("pre", { tabindex: 0 }, JSON.stringify(value, null, 2)));
}

function wording(step) {
  const text = step.content ?? step.title ?? step.text;
  return typeof text === "string" ? text : JSON.stringify(step);
}
