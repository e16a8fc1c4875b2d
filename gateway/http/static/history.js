// The messages that are on the page: a window onto the history, in order, never more than a few hundred.
// It grows at either end as one scrolls and lets go at the other, so that a long history stays as fast as a short one.

import { $, dayOf } from "/static/dom.js";
import * as api from "/static/api.js";
import { kindOf, makeMessage, makeWaiting } from "/static/message.js";

const MOST = 300;
// Distance to an end, in pixels, at which the next page is fetched; and that counts as being at the bottom.
const NEAR = 1200;
const AT_BOTTOM = 24;

/** Whether there is something before a page. */
const goesOn = (rows) => rows.length === api.PAGE && rows[0].seq > 1;

export class History {
  constructor(actions) {
    this.actions = actions; // {loaded, retry, again, edit, discard}
    this.log = $("log");
    this.rows = $("rows");
    this.log.addEventListener("scroll", () => this.scrolled(), { passive: true });
    $("newest").addEventListener("click", () => this.newest());
    // The keyboard of a phone, a rotated screen, a font that arrives: whoever was at the bottom stays there.
    const watch = new ResizeObserver(() => this.settle());
    watch.observe(this.log);
    watch.observe(this.log.firstElementChild);
    this.clear(null);
  }

  /** Begin with another session, or with none. */
  clear(session) {
    this.session = session;
    this.loading = null;
    this.held = []; // what arrives while a page is fetched
    this.running = false;
    this.shown = ""; // of what is on its way
    $("waiting").replaceChildren();
    this.forget();
    this.mark();
  }

  forget() {
    this.items = []; // {row, element, update}, by sequence number
    this.known = new Map(); // by id
    this.older = false; // there are messages before the first one
    this.tail = true; // the last one is the newest there is
    this.stick = true;
    this.place = 0; // where the log was, when last looked at
    this.rows.replaceChildren();
  }

  has(id) {
    return this.known.has(id);
  }

  /** The text that a turn asked, if it is on the page. */
  instruction(turn) {
    const asked = this.items.filter(({ row }) => row.turn === turn && row.role === "user");
    return asked.map(({ row }) => row.content.text).join("\n");
  }

  /** The newest page of a session. */
  show(rows) {
    this.forget();
    this.older = goesOn(rows);
    rows.forEach((row) => this.put(row));
    this.mark();
    this.bottom();
    this.scrolled();
  }

  /** New and changed rows, as they come. */
  apply(rows) {
    if (this.loading) this.held.push(...rows);
    else {
      rows.filter((row) => this.within(row)).forEach((row) => this.put(row));
      if (this.stick) this.trim(false);
      this.mark();
      this.settle();
    }
  }

  within({ id, seq }) {
    if (this.known.has(id) || this.items.length === 0) return true;
    if (seq < this.items[0].row.seq) return !this.older;
    return this.tail || seq < this.items.at(-1).row.seq;
  }

  put(row) {
    const found = this.known.get(row.id);
    if (found) {
      if (row.changedAt < found.row.changedAt) return; // what is here is newer
      found.row = row;
      found.update(row);
      return;
    }
    const item = { row, ...makeMessage(row, this.actions) };
    const after = this.items.findLastIndex((each) => each.row.seq < row.seq);
    this.rows.insertBefore(item.element, this.items[after + 1]?.element ?? null);
    this.items.splice(after + 1, 0, item);
    this.known.set(row.id, item);
  }

  /** What is on its way, below everything else. */
  wait(entries) {
    // Made anew only when something changed: a button that is replaced while it is pressed does nothing.
    const now = JSON.stringify(entries);
    if (now === this.shown) return;
    this.shown = now;
    const made = entries.map((entry) =>
      makeWaiting(entry, {
        again: () => this.actions.again(entry.id),
        edit: () => this.actions.edit(entry.id),
        discard: () => this.actions.discard(entry.id),
      }),
    );
    $("waiting").replaceChildren(...made);
    this.settle();
  }

  setRunning(running) {
    this.running = running;
    this.ends();
    this.settle();
  }

  /** Days, and who begins to speak. */
  mark() {
    let day = null;
    let turn = null;
    for (const { row, element } of this.items) {
      const own = dayOf(row.timestamp);
      if (own === day) delete element.dataset.day;
      else element.dataset.day = day = own;
      const kind = kindOf(row);
      const speaks = kind === "agent" || kind === "tool" || kind === "plan";
      element.classList.toggle("first", speaks && turn !== row.turn);
      turn = speaks ? row.turn : null;
    }
    this.ends();
  }

  /** What stands before the first message and after the last. */
  ends() {
    const grows = this.items.at(-1)?.row.content.partial === true;
    $("thinking").hidden = !this.running || grows || !this.tail;
    $("waiting").hidden = !this.tail;
    $("older").hidden = this.items.length === 0;
    $("older").textContent = this.older ? "Loading earlier messages…" : "This is where the chat begins.";
  }

  // Scrolling

  get gap() {
    return this.log.scrollHeight - this.log.scrollTop - this.log.clientHeight;
  }

  bottom() {
    this.stick = true;
    this.log.scrollTop = this.log.scrollHeight;
    this.place = this.log.scrollTop;
    $("newest").hidden = this.tail;
  }

  settle() {
    // Whoever scrolled up in this very moment is not pulled back, even if the browser has not told yet.
    if (this.log.scrollTop < this.place - AT_BOTTOM && this.gap > AT_BOTTOM) this.stick = false;
    if (this.stick && this.tail) this.bottom();
    else $("newest").hidden = false;
  }

  scrolled() {
    this.place = this.log.scrollTop;
    this.stick = this.tail && this.gap < AT_BOTTOM;
    $("newest").hidden = this.stick;
    if (this.loading || this.session === null) return;
    if (this.older && this.log.scrollTop < NEAR) this.load({ before: this.items[0].row.seq });
    else if (!this.tail && this.gap < NEAR) this.load({ after: this.items.at(-1).row.seq });
  }

  /** Back to the end: at once if it is on the page, else with the newest page. */
  async newest() {
    await this.loading?.catch(() => {});
    if (this.tail) this.bottom();
    else await this.load({});
  }

  /** Fetch the newest page, or one next to what is here; what arrives meanwhile comes after it. */
  async load(where) {
    const own = (this.loading = api.page(this.session, where));
    let rows = null;
    try {
      rows = await own;
    } catch {
      // The next scroll tries again; that the daemon is away is said elsewhere.
    }
    if (own !== this.loading) return; // another chat was opened
    this.loading = null;
    const late = this.held.splice(0);
    if (rows && Object.keys(where).length === 0) this.show(rows);
    else if (rows) this.extend(rows, where);
    this.apply(late);
    this.actions.loaded();
    if (rows?.length) this.scrolled();
  }

  /** Keep the eye where it is, and let go of what is far away. */
  extend(rows, where) {
    const back = where.before !== undefined;
    const anchor = this.anchor();
    const top = anchor.getBoundingClientRect().top;
    rows.forEach((row) => this.put(row));
    if (back) this.older = goesOn(rows);
    else this.tail = rows.length < api.PAGE;
    this.trim(back);
    this.mark();
    this.log.scrollTop += anchor.getBoundingClientRect().top - top;
  }

  /** The first message that can be seen. */
  anchor() {
    const edge = this.log.getBoundingClientRect().top;
    return this.items.find(({ element }) => element.getBoundingClientRect().bottom > edge)?.element ?? this.rows;
  }

  trim(atEnd) {
    const excess = this.items.length - MOST;
    if (excess <= 0) return;
    const gone = atEnd ? this.items.splice(-excess) : this.items.splice(0, excess);
    for (const { row, element } of gone) {
      element.remove();
      this.known.delete(row.id);
    }
    if (atEnd) this.tail = false;
    else this.older = true;
  }
}
