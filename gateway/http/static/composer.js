// The field one writes in. What is written is kept as a draft, per chat, until it is sent.

import { $ } from "/static/dom.js";
import { draft } from "/static/storage.js";

// On a phone there is no Shift+Enter: there Enter makes the new line and the button sends.
const touch = matchMedia("(hover: none) and (pointer: coarse)");

export class Composer {
  /** `on`: send(text), stop(). */
  constructor(on) {
    this.on = on;
    this.field = $("say");
    this.chat = null;
    this.field.enterKeyHint = touch.matches ? "enter" : "send";
    this.field.addEventListener("input", () => this.changed());
    this.field.addEventListener("keydown", (event) => this.key(event));
    $("composer").addEventListener("submit", (event) => {
      event.preventDefault();
      this.send();
    });
    $("stop").addEventListener("click", () => this.stop());
  }

  open(chat) {
    this.chat = chat;
    this.field.value = draft.read(chat);
    this.fit();
  }

  /** Put a text (back) into the field. */
  write(text) {
    this.field.value = [text, this.field.value.trim()].filter(Boolean).join("\n");
    this.changed();
    this.field.focus();
  }

  focus() {
    if (!touch.matches) this.field.focus({ preventScroll: true });
  }

  /** Once is enough, until it is known what became of it. A disabled button would lose the focus. */
  async stop() {
    if (this.stopping) return;
    this.stopping = true;
    await this.on.stop();
    this.stopping = false;
  }

  setRunning(running) {
    if (!running && document.activeElement === $("stop")) this.field.focus();
    $("stop").hidden = !running;
  }

  /** An ended chat takes no more messages; `why` says so. */
  setEnded(why) {
    if (this.field.disabled === Boolean(why)) return;
    $("ended").hidden = !why;
    $("ended").textContent = why ?? "";
    $("composer").classList.toggle("over", Boolean(why));
    this.field.disabled = Boolean(why);
    this.fit();
  }

  key(event) {
    // While an input method composes, Enter chooses a word. Safari reports the last one as key 229.
    if (event.key !== "Enter" || event.shiftKey || event.isComposing || event.keyCode === 229 || touch.matches) return;
    event.preventDefault();
    this.send();
  }

  send() {
    const text = this.field.value;
    if (!text.trim() || this.field.disabled) return;
    // Emptied before anything else, so that a second click finds nothing to send.
    this.field.value = "";
    this.changed();
    this.on.send(text);
    this.field.focus();
  }

  changed() {
    draft.write(this.chat, this.field.value.trim() ? this.field.value : "");
    this.fit();
  }

  fit() {
    $("send").disabled = !this.field.value.trim() || this.field.disabled;
    this.field.style.height = "auto";
    this.field.style.height = `${this.field.scrollHeight}px`;
  }
}
