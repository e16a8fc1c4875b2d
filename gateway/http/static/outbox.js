// Messages that the daemon has not taken yet. Each has an id of its own making and is sent under it, again and again,
// until it is taken: the daemon makes one turn of it, however often it comes. They survive a reload.

import * as api from "/static/api.js";
import { newId, unsent } from "/static/storage.js";

const FIRST_PAUSE = 1000;
const LONGEST_PAUSE = 15_000;
// Older ones are not sent unasked: by now they might surprise.
const FRESH = 3_600_000;

export class Outbox {
  /** `on`: changed(), created(chat, session), accepted(entry, messageId), refused(problem). */
  constructor(on) {
    this.on = on;
    this.busy = new Set();
    this.pause = FIRST_PAUSE;
    this.timer = 0;
    this.entries = unsent.all();
    for (const entry of this.entries) {
      if (Date.now() - entry.at > FRESH) entry.problem = "Not sent.";
    }
  }

  /** What waits in a conversation: by its session, or by the id it had before it was one. */
  of(chat) {
    return this.entries.filter((entry) => entry.session === chat || entry.chat === chat);
  }

  /** Whether a message of a conversation is under way right now. */
  sending(chat) {
    return this.of(chat).some((entry) => entry.sending);
  }

  /** `{session}` or, for a conversation to be made, `{chat, agent}`; with `text`, and `rerun` to ask a turn again. */
  add(message) {
    const entry = { ...message, id: newId(), at: Date.now(), problem: null };
    this.entries.push(entry);
    this.keep(entry);
    this.on.changed();
    this.run(entry.session ?? entry.chat);
  }

  again(id) {
    const entry = this.entries.find((each) => each.id === id);
    entry.problem = null;
    entry.at = Date.now();
    this.keep(entry);
    this.on.changed();
    this.run(entry.session ?? entry.chat);
  }

  drop(id) {
    this.entries = this.entries.filter((each) => each.id !== id);
    unsent.drop(id);
    this.on.changed();
  }

  /** The daemon may be back. */
  kick() {
    this.pause = FIRST_PAUSE;
    clearTimeout(this.timer);
    for (const chat of new Set(this.entries.map((entry) => entry.session ?? entry.chat))) this.run(chat);
  }

  keep({ sending, ...entry }) {
    unsent.keep(entry);
  }

  /** Send what waits in one conversation, in order. */
  async run(chat) {
    if (this.busy.has(chat)) return;
    this.busy.add(chat);
    let entry;
    while ((entry = this.of(chat).find((each) => !each.problem))) {
      try {
        entry.sending = true;
        const { messageId } = await this.send(entry);
        this.pause = FIRST_PAUSE;
        this.drop(entry.id);
        this.on.accepted(entry, messageId);
      } catch (problem) {
        entry.sending = false;
        if (problem.passing || problem.status === 401) {
          this.later(problem);
          break;
        }
        entry.problem = problem.message;
        this.keep(entry);
        this.on.changed();
      }
    }
    this.busy.delete(chat);
  }

  later(problem) {
    this.on.refused(problem);
    this.on.changed();
    clearTimeout(this.timer);
    this.timer = setTimeout(() => {
      const { pause } = this;
      this.kick();
      this.pause = Math.min(pause * 2, LONGEST_PAUSE);
    }, Math.max(this.pause, problem.retryAfter * 1000));
  }

  async send(entry) {
    if (!entry.session) {
      const session = await api.create(entry.agent, entry.chat);
      for (const each of this.of(entry.chat)) {
        each.session = session.id;
        this.keep(each);
      }
      this.on.created(entry.chat, session);
    }
    if (entry.rerun) return api.rerun(entry.session, entry.rerun, entry.id);
    return api.prompt(entry.session, entry.text, entry.id);
  }
}
