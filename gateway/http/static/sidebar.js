// The list of chats, last active first. It is asked for again when something happened and, while it can be seen,
// every few seconds, because other channels and other tabs make things happen too.

import * as api from "/static/api.js";
import { $, h, shortTime, tooltipTime } from "/static/dom.js";

const STEP = 30;
const OFTEN = 10_000;
const WORDS = { completed: "ended", cancelled: "cancelled", error: "ended in an error" };

export class Sidebar {
  /** `on`: reached(), missed(problem), listed(sessions); `agents` are names by id. */
  constructor(on) {
    this.on = on;
    this.agents = new Map();
    this.limit = STEP;
    this.open = null;
    this.items = new Map();
    $("more-sessions").addEventListener("click", () => {
      this.limit = Math.min(this.limit + STEP, 500);
      this.refresh();
    });
    setInterval(() => document.hidden || this.refresh(), OFTEN);
    const wide = matchMedia("(min-width: 50rem)");
    wide.addEventListener("change", () => this.drawer(false));
    this.wide = () => wide.matches;
    $("open-chats").addEventListener("click", () => this.drawer(true));
    $("scrim").addEventListener("click", () => this.drawer(false));
    $("chats").addEventListener("keydown", (event) => {
      if (event.key !== "Escape" || !this.drawn) return;
      event.stopPropagation();
      this.drawer(false);
    });
    this.drawer(false);
  }

  /** On a phone the list is a drawer. While it is shut, nothing in it can be reached. */
  drawer(open) {
    const was = this.drawn;
    this.drawn = open && !this.wide();
    document.body.classList.toggle("drawn", this.drawn);
    $("chats").inert = !this.wide() && !this.drawn;
    document.querySelector("main").inert = this.drawn;
    $("scrim").hidden = !this.drawn;
    $("open-chats").setAttribute("aria-expanded", String(this.drawn));
    if (this.drawn) $("new-chat").focus();
    else if (was) $("open-chats").focus();
  }

  async refresh() {
    if (this.asking) return (this.stale = true);
    this.asking = true;
    this.stale = false;
    try {
      const { sessions, total } = await api.sessions(this.limit);
      this.on.reached();
      this.show(sessions);
      $("more-sessions").hidden = total <= this.limit || this.limit >= 500;
      this.on.listed(sessions);
    } catch (problem) {
      this.on.missed(problem);
    }
    this.asking = false;
    return this.stale && this.refresh();
  }

  /** Which chat is open, and whether its agent is at work. */
  choose(id, running) {
    this.open = id;
    for (const [each, { link }] of this.items) {
      if (each === id) link.setAttribute("aria-current", "page");
      else link.removeAttribute("aria-current");
      link.classList.toggle("busy", each === id && running);
    }
  }

  show(sessions) {
    const list = $("sessions");
    sessions.forEach((session, place) => {
      const item = this.items.get(session.id) ?? this.make(session.id);
      this.fill(item, session);
      // Moved only if it has to be: moving takes the focus away.
      if (list.children[place] !== item.element) list.insertBefore(item.element, list.children[place] ?? null);
    });
    const listed = new Set(sessions.map((session) => session.id));
    for (const [id, { element }] of this.items) {
      if (listed.has(id)) continue;
      element.remove();
      this.items.delete(id);
    }
    $("no-sessions").hidden = sessions.length > 0;
    const busy = this.items.get(this.open)?.link.classList.contains("busy") ?? false;
    this.choose(this.open, busy);
  }

  make(id) {
    const name = h("span", { class: "name", dir: "auto" });
    const facts = h("span", { class: "facts" });
    const link = h("a", { href: `#/${id}`, onclick: () => this.drawer(false) }, name, facts);
    const item = { element: h("li", {}, link), link, name, facts };
    this.items.set(id, item);
    return item;
  }

  fill({ link, name, facts }, session) {
    const agent = this.agents.get(session.agentId) ?? session.agentId;
    const where = session.channel === "api" ? null : session.channel;
    const parts = [agent, where, shortTime(session.updatedAt), WORDS[session.status]];
    name.textContent = session.title ?? "Without a title";
    facts.textContent = parts.filter(Boolean).join(" · ");
    facts.title = `Last active ${tooltipTime(session.updatedAt)}`;
    link.className = session.status + (link.classList.contains("busy") ? " busy" : "");
  }
}
