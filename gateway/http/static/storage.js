// What outlives a reload: drafts, and messages that the daemon has not taken yet. One key each, so that tabs
// do not overwrite each other. A browser that refuses storage loses only this.

const DRAFT = "trunkline.draft.";
const UNSENT = "trunkline.unsent.";

function attempt(work) {
  try {
    return work();
  } catch {
    return null;
  }
}

export const draft = {
  read: (chat) => attempt(() => localStorage.getItem(DRAFT + chat)) ?? "",
  write: (chat, text) =>
    attempt(() => (text ? localStorage.setItem(DRAFT + chat, text) : localStorage.removeItem(DRAFT + chat))),
};

export const unsent = {
  keep: (entry) => attempt(() => localStorage.setItem(UNSENT + entry.id, JSON.stringify(entry))),
  drop: (id) => attempt(() => localStorage.removeItem(UNSENT + id)),
  all() {
    const keys = attempt(() => Object.keys(localStorage)) ?? [];
    const found = keys.filter((key) => key.startsWith(UNSENT));
    const entries = found.map((key) => attempt(() => JSON.parse(localStorage.getItem(key))));
    return entries.filter((entry) => entry?.id).sort((one, other) => one.at - other.at);
  },
};

/** A random id. Plain-http pages of other hosts have no randomUUID. */
export function newId() {
  if (crypto.randomUUID) return crypto.randomUUID();
  const bytes = crypto.getRandomValues(new Uint8Array(16));
  return Array.from(bytes, (byte) => byte.toString(16).padStart(2, "0")).join("");
}
