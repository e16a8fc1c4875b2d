// The page as a whole: which chat is open, its head, and what connects the parts.

import * as api from "/static/api.js";
import * as commands from "/static/commands.js";
import { Composer } from "/static/composer.js";
import { $, h } from "/static/dom.js";
import { History } from "/static/history.js";
import { Outbox } from "/static/outbox.js";
import { Session } from "/static/session.js";
import { Sidebar } from "/static/sidebar.js";
import { newId } from "/static/storage.js";

const NEW = "new"; // the key of the draft of a chat to be made
const ENDED = "This chat has ended and takes no more messages. Start a new one.";

let me = { version: null, agents: [], defaultAgent: null };

// The stream does not tell what waits, nor what happens in other chats: tabs tell each other.
const tabs = new BroadcastChannel("trunkline");
tabs.onmessage = ({ data }) => {
  sidebar.refresh();
  if (data.waits === session.id) session.refresh();
};

function tell(what = {}) {
  sidebar.refresh();
  tabs.postMessage(what);
}

const history = new History({
  loaded: () => session.draw(),
  retry: (turn) => {
    const text = history.instruction(turn) || "The same once more";
    outbox.add({ session: session.id, rerun: turn, text });
    history.newest();
  },
  again: (id) => outbox.again(id),
  discard: (id) => outbox.drop(id),
  edit: (id) => {
    composer.write(outbox.of(session.id).find((entry) => entry.id === id).text);
    outbox.drop(id);
  },
});

const outbox = new Outbox({
  changed: () => session.draw(),
  refused: (problem) => reach(problem),
  created: (chat, { id }) => {
    if (session.id !== chat) return;
    session.awaited = id;
    location.replace(`#/${id}`);
  },
  accepted: (entry, messageId) => {
    session.accepted(entry, messageId);
    tell({ waits: entry.session });
  },
});

const session = new Session(history, outbox, {
  connected: (up) => {
    if (up) back();
    else bar("Reconnecting…");
  },
  changed: () => tell(),
  missing: (problem) => (problem.status === 404 ? lost() : reach(problem)),
  failed: (problem) => reach(problem),
  said: (row) => ($("announce").textContent = `${agentName(session.info?.agentId)}: ${row.content.text.slice(0, 400)}`),
  drawn: () => head(),
});

const composer = new Composer({
  send: (text) => {
    commands.note("");
    if (session.made && commands.isCommand(text)) return command(text);
    if (session.made) outbox.add({ session: session.id, text });
    else outbox.add({ session: null, chat: session.id, agent: $("agent").value || null, text });
    history.newest();
  },
  stop: () => session.stop().catch(reach),
});

async function command(text) {
  if (commands.isNew(text)) {
    location.hash = "#/";
    return;
  }
  try {
    await commands.run(session.id, text);
    history.settle();
  } catch (problem) {
    composer.write(text);
    reach(problem);
  }
}

const sidebar = new Sidebar({
  reached: () => session.stream || back(),
  missed: (problem) => session.stream || reach(problem),
  listed: (sessions) => {
    const own = sessions.find((each) => each.id === session.id);
    if (own && own.updatedAt >= (session.info?.updatedAt ?? "")) session.info = own;
    head();
  },
});

// The head

const agentName = (id) => me.agents.find((agent) => agent.id === id)?.name ?? id ?? "";

function head() {
  const { info } = session;
  const live = info?.recoverable ?? false;
  $("title").textContent = info ? (info.title ?? "Without a title") : "New chat";
  $("subtitle").textContent = info ? [agentName(info.agentId), session.running ? "answering" : ""].filter(Boolean).join(" · ") : "";
  document.title = info?.title ? `${info.title} · Trunkline` : "Trunkline";
  $("rename").hidden = !live;
  $("archive").hidden = !live;
  $("welcome").hidden = location.hash.length > 2 || $("waiting").childElementCount > 0;
  $("log").style.setProperty("--initial", JSON.stringify(agentName(info?.agentId).slice(0, 1).toUpperCase()));
  composer.setRunning(session.running);
  composer.setEnded(info && !live ? ENDED : null);
  sidebar.choose(session.id, session.running);
}

$("rename").addEventListener("click", () => {
  const field = $("title-field");
  field.value = session.info.title ?? "";
  field.hidden = false;
  $("title").hidden = true;
  field.select();
});

async function rename(save) {
  const field = $("title-field");
  if (field.hidden) return;
  field.hidden = true;
  $("title").hidden = false;
  const title = field.value.trim() || null;
  if (!save || title === session.info.title) return;
  try {
    session.info = await api.rename(session.id, title);
    tell();
    head();
  } catch (problem) {
    reach(problem);
  }
}

$("title-field").addEventListener("blur", () => rename(true));
$("title-field").addEventListener("keydown", (event) => {
  if (event.key !== "Enter" && event.key !== "Escape") return;
  event.stopPropagation();
  rename(event.key === "Enter");
  composer.focus();
});

$("archive").addEventListener("click", () => $("confirm").showModal());
$("confirm").addEventListener("close", async () => {
  const { returnValue } = $("confirm");
  $("confirm").returnValue = "";
  if (returnValue !== "yes") return;
  try {
    await api.archive(session.id);
    tell({ waits: session.id });
    location.hash = "#/";
  } catch (problem) {
    reach(problem);
  }
});

// The bar: the connection, and what did not work

let barTimer = 0;

function bar(text, label = null, act = null) {
  clearTimeout(barTimer);
  $("bar").hidden = !text;
  $("bar").classList.toggle("away", text === "Reconnecting…");
  $("bar-text").textContent = text ?? "";
  $("bar-button").hidden = !label;
  $("bar-button").textContent = label ?? "";
  $("bar-button").onclick = act;
}

function reach(problem) {
  if (problem.status === 401) bar("You are logged out: the daemon has another token now.", "Log in", () => location.reload());
  else if (problem.passing && problem.status !== 429) bar("Reconnecting…");
  else {
    bar(problem.message);
    barTimer = setTimeout(() => bar(null), 8000);
  }
}

/** The daemon answers. If it was away, it may be another one now. */
async function back() {
  if (!$("bar").classList.contains("away") && me.version) return;
  const known = me.version;
  try {
    me = await api.me();
  } catch (problem) {
    reach(problem);
    return;
  }
  if (known && known !== me.version) bar("Trunkline was updated.", "Reload", () => location.reload());
  else bar(null);
  sidebar.agents = new Map(me.agents.map((agent) => [agent.id, agent.name]));
  choices();
  outbox.kick();
  sidebar.refresh();
}

function choices() {
  const chosen = $("agent").value || me.defaultAgent || me.agents[0]?.id;
  $("agent").replaceChildren(...me.agents.map(({ id, name }) => h("option", { value: id }, name)));
  $("agent").value = chosen;
  $("agent-choice").hidden = me.agents.length < 2;
  head();
}

// Which chat

function route() {
  const id = location.hash.replace(/^#\/?/, "");
  rename(false);
  if (id) {
    composer.open(id);
    session.open(id);
  } else {
    composer.open(NEW);
    // One that could not be made before the page was left is still there.
    session.start(outbox.entries.find((entry) => !entry.session)?.chat ?? newId());
  }
  composer.focus();
}

function lost() {
  location.replace("#/");
  reach(new api.Problem(404, "unknown_session", "That chat does not exist (any more)."));
}

$("new-chat").addEventListener("click", () => {
  sidebar.drawer(false);
  if (location.hash.length > 2) location.hash = "#/";
  else route();
});
$("skip").addEventListener("click", () => $("say").focus());
$("welcome").addEventListener("click", ({ target }) => target.dataset.say && composer.write(target.dataset.say));
document.addEventListener("keydown", (event) => {
  if (event.key !== "Escape" || event.isComposing || !session.running || $("confirm").open) return;
  event.preventDefault();
  composer.stop();
});
window.addEventListener("hashchange", route);
window.addEventListener("online", () => session.resume());

route();
back();
