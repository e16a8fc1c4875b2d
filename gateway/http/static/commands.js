// Commands that one types. What they answer is for whoever typed them: it is shown, and not kept.

import * as api from "/static/api.js";
import { $ } from "/static/dom.js";

// The same as the daemon takes for one: a path is none.
const COMMAND = /^\/[a-z][a-z0-9_]*(@\w+)?(\s|$)/i;

export const isCommand = (text) => COMMAND.test(text);

export const isNew = (text) => text.trim().toLowerCase() === "/new";

export async function run(session, text) {
  note((await api.command(session, text)).text);
}

export function note(text) {
  $("note").textContent = text;
  $("note").hidden = !text;
}
