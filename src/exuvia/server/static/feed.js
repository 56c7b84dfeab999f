// What the node says: server-sent events, or asked for every other second where they do not come.

const PATIENCE_MS = 6000;
const ANSWER_MS = 30_000; // a request without an answer fails then, and may be repeated

/** Calls `told.live(state)`, `told.cluster(values)`, `told.link(kind, text)`, `told.trouble(text)`,
 *  `told.refused(error)`.
 *  `state.jobs` is a Map by id; `state.changed` the ids that are new or other than before, or null
 *  for all of them. */
export function follow(told) {
  let jobs = new Map();
  let heard = 0;
  let polling = 0;
  let source = null;

  const live = (values, whole) => {
    heard = performance.now();
    if (whole) jobs = new Map();
    for (const job of values.jobs) jobs.set(job.id, job);
    for (const id of values.gone ?? []) jobs.delete(id);
    const changed = whole ? null : [...values.jobs.map((job) => job.id), ...(values.gone ?? [])];
    told.trouble("");
    told.live({ ...values, jobs, changed });
  };

  const listen = () => {
    source = new EventSource("/events");
    const on = (name, then) =>
      source.addEventListener(name, (event) => then(JSON.parse(event.data)));
    on("all", (values) => { stopPolling(); told.link("live", "live"); live(values, true); });
    on("change", (values) => { told.link("live", "live"); live(values, false); });
    on("cluster", told.cluster);
    on("trouble", (values) => { heard = performance.now(); told.trouble(values.error); });
    source.onerror = () => {
      if (source.readyState === EventSource.CLOSED) {
        poll();
        setTimeout(listen, 10_000);
      } else {
        told.link("off", "no answer, retrying");
      }
    };
  };

  const poll = () => {
    if (polling) return;
    let round = 0;
    const look = async () => {
      try {
        live(await get("/page/live"), true);
        told.link("live", "polling every 2 s");
        if (round++ % 3 === 0) told.cluster(await get("/page/cluster"));
      } catch (error) {
        if (error.status === 401 || error.status === 403) told.refused(error);
        told.trouble(String(error.message ?? error));
      }
    };
    polling = setInterval(look, 2000);
    look();
  };
  const stopPolling = () => { clearInterval(polling); polling = 0; };

  setInterval(() => {
    const silent = performance.now() - heard;
    if (heard && silent > PATIENCE_MS) {
      told.link("off", `no data for ${Math.round(silent / 1000)} s`);
    }
  }, 1000);
  listen();
}

/** The login's token: other ports of this host get its cookie, and cannot read this. */
const TOKEN = "exuvia-token";
let token = "";
try {
  token = localStorage.getItem(TOKEN) ?? "";
} catch { /* the browser keeps nothing: a login ends with the page */ }

/** "" forgets it. */
export function keepToken(text) {
  token = text;
  try {
    if (text) localStorage.setItem(TOKEN, text);
    else localStorage.removeItem(TOKEN);
  } catch { /* as above */ }
}

/** JSON of a page of the node's. Throws what it says, with its status. */
export async function get(path, settings = { signal: AbortSignal.timeout(ANSWER_MS) }) {
  const headers = { ...settings.headers, ...(token && { "X-Exuvia-Token": token }) };
  const answer = await fetch(path, { ...settings, headers });
  const values = await answer.json();
  if (!answer.ok) throw Object.assign(new Error(values.error ?? answer.statusText), { status: answer.status });
  return values;
}

/** The same of a command. */
export function post(path, values) {
  const headers = { "Content-Type": "application/json" };
  return get(path, { method: "POST", headers, body: JSON.stringify(values) });
}
