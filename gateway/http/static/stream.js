// The events of one session, for as long as the page shows it: read, and after a break taken up where it broke off.

import { request } from "/static/api.js";

const FIRST_PAUSE = 400;
const LONGEST_PAUSE = 8000;
// The daemon gives a sign of life every 15 seconds; silence beyond this is a dead connection.
const SILENCE = 40_000;

/**
 * Follow a session from `cursor`. `on.events` gets what came together, `on.state` "live" or "down",
 * `on.refused` a problem that trying again cannot solve. After `close`, `resume` takes it up again.
 */
export function follow(session, cursor, on) {
  let current = null;
  let timer = 0;
  let pause = FIRST_PAUSE;
  let live = false;

  async function run() {
    const own = (current = new AbortController());
    let refused = null;
    try {
      await read(own);
    } catch (problem) {
      if (problem.status && !problem.passing) refused = problem;
    }
    if (own !== current) return; // closed, or begun anew
    live = false;
    if (refused) return on.refused(refused);
    on.state("down");
    timer = setTimeout(run, pause * (0.75 + Math.random() / 2));
    pause = Math.min(pause * 2, LONGEST_PAUSE);
  }

  async function read(own) {
    let silence = setTimeout(() => own.abort(), SILENCE);
    try {
      const headers = { Accept: "text/event-stream", "Last-Event-ID": cursor };
      const url = `/api/sessions/${encodeURIComponent(session)}/events`;
      const response = await request("GET", url, { signal: own.signal, headers });
      if (own !== current) return;
      live = true;
      pause = FIRST_PAUSE;
      on.state("live");
      const parse = parser();
      const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
      for (;;) {
        const { done, value } = await reader.read();
        if (done || own !== current) return;
        clearTimeout(silence);
        silence = setTimeout(() => own.abort(), SILENCE);
        const events = parse(value);
        if (events.length) on.events(events);
        // Moved only after the page has them: what is shown twice is harmless, what is missed is not.
        cursor = events.findLast((event) => event.id)?.id ?? cursor;
      }
    } finally {
      clearTimeout(silence);
    }
  }

  function close() {
    clearTimeout(timer);
    const old = current;
    current = null;
    live = false;
    old?.abort();
  }

  /** Now rather than later: the network came back, or the page came to the front. */
  function resume() {
    if (live) return;
    close();
    pause = FIRST_PAUSE;
    run();
  }

  run();
  return { close, resume };
}

/** Takes pieces of an event stream, gives the events that they complete: `{name, data, id}`. */
export function parser() {
  let rest = "";
  let fields = {};
  return (piece) => {
    const lines = (rest + piece).split("\n");
    rest = lines.pop();
    const events = [];
    for (const line of lines) {
      if (line === "") {
        if (fields.data !== undefined) {
          events.push({ name: fields.event ?? "message", data: JSON.parse(fields.data), id: fields.id });
        }
        fields = {};
        continue;
      }
      const colon = line.indexOf(":");
      if (colon > 0) fields[line.slice(0, colon)] = line.slice(colon + 1).replace(/^ /, "");
    }
    return events;
  };
}
