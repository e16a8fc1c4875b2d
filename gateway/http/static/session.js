// The chat that is open: what it shows, and how it follows what happens in it.

import * as api from "/static/api.js";
import { kindOf } from "/static/message.js";
import * as questions from "/static/questions.js";
import { follow } from "/static/stream.js";

const AGAIN = 1500;
// A hidden tab gives its connection back after a while: browsers allow only six of them per host.
const HIDDEN = 60_000;

export class Session {
  /** `on`: connected(up), changed(), missing(problem), failed(problem), said(row), drawn(). */
  constructor(history, outbox, on) {
    this.history = history;
    this.outbox = outbox;
    this.on = on;
    this.awaited = null; // a session that was just made, and may have its answer before it is opened
    this.close();
    document.addEventListener("visibilitychange", () => this.seen());
  }

  close() {
    this.stream?.close();
    clearTimeout(this.timer);
    this.stream = null;
    questions.draw([]);
    this.visit = {}; // what an earlier visit still brings is not for this one
    this.id = null;
    this.made = false; // it is a session, and not only a wish
    this.info = null; // the session as the API tells it
    this.turn = null; // its newest turn
    this.waiting = []; // taken by the daemon, not yet begun
    this.held = [];
    this.up = true;
  }

  get running() {
    return this.turn?.status === "pending";
  }

  /** A chat that is not a session yet: `chat` is the id under which it waits to become one. */
  start(chat) {
    this.close();
    this.id = chat;
    this.history.clear(null);
    this.draw();
  }

  async open(id) {
    this.close();
    this.id = id;
    this.made = true;
    this.history.clear(id);
    this.draw();
    await this.load(this.visit);
  }

  async load(visit) {
    const { id } = this;
    const here = () => this.visit === visit;
    try {
      const state = await api.state(id);
      const rows = state.session.messageCount ? await api.page(id) : [];
      if (!here()) return;
      this.take(state);
      this.history.show(rows);
      if (this.awaited === id) {
        this.awaited = null;
        rows.forEach((row) => this.tell(row));
        this.on.changed(); // it has a title by now
      }
      this.stream = follow(id, state.cursor, {
        events: (events) => here() && this.happened(events),
        state: (state) => here() && this.connected(state === "live"),
        refused: (problem) => here() && this.on.missing(problem),
      });
      this.draw();
      this.ask();
    } catch (problem) {
      if (!here()) return;
      if (!problem.passing) return this.on.missing(problem);
      this.connected(false);
      this.timer = setTimeout(() => this.load(visit), AGAIN);
    }
  }

  /** A turn that has ended never runs again: an answer that was slow on its way may still say that it does. */
  learn(turn) {
    const known = this.turn?.sequenceNumber ?? 0;
    if (turn.sequenceNumber > known || (turn.sequenceNumber === known && this.running)) this.turn = turn;
  }

  take(state) {
    this.info = state.session;
    if (state.turn) this.learn(state.turn);
    this.waiting = state.waiting.map((row) => ({ id: row.id, text: row.content.text }));
  }

  /** What the stream does not tell: what waits, and what became of the session. */
  async refresh() {
    const { id, visit } = this;
    if (this.info === null) return;
    const before = new Set(this.waiting.map((each) => each.id));
    try {
      const state = await api.state(id);
      if (this.visit !== visit) return;
      // Taken while we asked: the answer may not know it yet.
      const newer = this.waiting.filter((each) => !before.has(each.id));
      this.take(state);
      const told = new Set(this.waiting.map((each) => each.id));
      this.waiting.push(...newer.filter((each) => !told.has(each.id)));
      this.draw();
    } catch {
      // The stream notices too, and asks again when it is back.
    }
  }

  /** What the agent asks now. */
  ask() {
    const { visit } = this;
    if (this.running) questions.refresh(this.id, () => this.visit === visit, this.on.failed);
    else questions.draw([]);
  }

  connected(up) {
    const back = up && !this.up;
    this.up = up;
    this.on.connected(up);
    if (back) this.refresh();
    this.draw();
  }

  happened(events) {
    const rows = events.filter((event) => event.name === "message").map((event) => event.data);
    const turns = events.filter((event) => event.name === "turn").map((event) => event.data);
    this.put(rows);
    for (const turn of turns) {
      this.learn(turn);
    }
    this.draw();
    // A question is a note in the history, and so is what became of it.
    if (turns.length || rows.some((row) => row.role === "system")) this.ask();
    if (turns.length) this.on.changed();
    if (turns.length && !this.running) this.outbox.kick(); // there may be room again
    if (turns.length && this.waiting.length) this.refresh();
  }

  put(rows) {
    // Our own message may come down the stream before the answer that tells its id; until then it is on the page.
    const sending = this.outbox.sending(this.id);
    const early = (row) => sending && row.role === "user" && !this.history.has(row.id);
    const all = [...this.held, ...rows];
    this.held = all.filter(early);
    const ready = all.filter((row) => !early(row));
    this.history.apply(ready);
    for (const row of ready) this.tell(row);
  }

  /** What is read aloud: answers when they are whole, and failures. */
  tell(row) {
    const kind = kindOf(row);
    if (kind === "failed" || (kind === "agent" && !row.content.partial)) this.on.said(row);
  }

  /** The daemon took a message of ours. */
  accepted(entry, messageId) {
    if (entry.session !== this.id && entry.chat !== this.id) return;
    if (!this.history.has(messageId)) this.waiting.push({ id: messageId, text: entry.text });
    this.draw();
  }

  /** Bring to the page what is not in the rows. */
  draw() {
    if (this.held.length && !this.outbox.sending(this.id)) this.put([]);
    this.waiting = this.waiting.filter(({ id }) => !this.history.has(id) && !this.held.some((row) => row.id === id));
    const unsent = this.outbox.of(this.id).map((entry) => {
      const state = entry.problem ? "failed" : this.up ? "sending" : "offline";
      return { id: entry.id, text: entry.text, problem: entry.problem, state };
    });
    this.history.wait([...this.waiting.map((each) => ({ ...each, state: "queued" })), ...unsent]);
    this.history.setRunning(this.running);
    this.on.drawn();
  }

  async stop() {
    const { turn } = await api.stop(this.id);
    if (turn === null) this.refresh();
  }

  /** Now rather than later. */
  resume() {
    this.stream?.resume();
  }

  seen() {
    clearTimeout(this.hiding);
    if (!document.hidden) {
      this.resume();
      return this.refresh();
    }
    this.hiding = setTimeout(() => (this.running ? this.seen() : this.stream?.close()), HIDDEN);
    return undefined;
  }
}
