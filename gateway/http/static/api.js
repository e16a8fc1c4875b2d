// The HTTP API as the page uses it. Every failure becomes a Problem with a sentence that can be shown.

export class Problem extends Error {
  constructor(status, code, message, retryAfter = 0) {
    super(message);
    this.status = status;
    this.code = code;
    this.retryAfter = retryAfter;
  }

  /** Trying again later may help: the daemon is away, starting, stopping, or has too much to do. */
  get passing() {
    return this.status === 0 || this.status === 429 || this.status >= 500;
  }
}

export const UNREACHABLE = "The daemon cannot be reached.";

export async function request(method, path, { body, signal, headers = {} } = {}) {
  const options = { method, signal, headers, credentials: "same-origin", cache: "no-store" };
  if (body !== undefined) {
    options.body = JSON.stringify(body);
    options.headers = { ...headers, "Content-Type": "application/json" };
  }
  let response;
  try {
    response = await fetch(path, options);
  } catch (error) {
    if (signal?.aborted) throw error;
    throw new Problem(0, "unreachable", UNREACHABLE);
  }
  if (response.ok) return response;
  const told = await response.json().catch(() => null);
  const { code = "unknown", message = `The daemon answered with ${response.status}.` } = told?.error ?? {};
  throw new Problem(response.status, code, message, Number(response.headers.get("Retry-After")) || 0);
}

async function json(method, path, options) {
  const response = await request(method, path, options);
  try {
    return await response.json();
  } catch (error) {
    if (options?.signal?.aborted) throw error;
    throw new Problem(0, "unreachable", UNREACHABLE); // it went away in the middle of its answer
  }
}

const session = (id, more = "") => `/api/sessions/${encodeURIComponent(id)}${more}`;
const LISTED = "active,idle,compacted,completed,cancelled,error";

export const me = () => json("GET", "/api/me");
export const sessions = (limit) => json("GET", `/api/sessions?sort=updated&limit=${limit}&status=${LISTED}`);
export const state = (id, signal) => json("GET", session(id, "/state"), { signal });
export const create = (agent, id) => json("POST", "/api/sessions", { body: { agent, id, lasting: true } });
export const command = (id, text) => json("POST", session(id, "/command"), { body: { text } });
export const prompt = (id, text, key) => json("POST", session(id, "/prompt"), { body: { text, id: key } });
export const rerun = (id, turn, key) => json("POST", session(id, `/turns/${turn}/rerun`), { body: { id: key } });
export const stop = (id) => json("POST", session(id, "/stop"));
export const rename = (id, title) => json("PATCH", session(id), { body: { title } });
export const archive = (id) => json("POST", session(id, "/archive"));
export const questions = (id) => json("GET", session(id, "/questions"));
export const choose = (id, option) => json("POST", `/api/questions/${encodeURIComponent(id)}`, { body: { option } });
export const turn = (id, number) => json("GET", session(id, `/turns/${number}`));
export const text = async (url) => (await request("GET", url)).text();

export const PAGE = 50;

/** A page of the history: the newest, or the one `{before: seq}` or `{after: seq}`. */
export function page(id, where = {}, signal) {
  const query = new URLSearchParams({ limit: PAGE, ...where });
  return json("GET", session(id, `/messages?${query}`), { signal });
}
