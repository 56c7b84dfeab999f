// The page: draws what the node says. Every text is set as text, so a name that holds HTML is a name.

import { Chart, short, stateName } from "/chart.js";
import { Commands } from "/commands.js";
import { make } from "/elements.js";
import { follow, get } from "/feed.js";
import { histogram } from "/histogram.js";

const PAGE = 100; // rows of jobs until more are asked for
const FIRST_TABLES = 50; // of the node's first page of them
const STEP = 20; // of them are made at once: those in the window, and the next ones when it comes near
const by = (id) => document.getElementById(id);
const count = new Intl.NumberFormat("en");
const day = new Intl.DateTimeFormat("en-CA", {
  year: "numeric", month: "2-digit", day: "2-digit", hour: "2-digit", minute: "2-digit",
  second: "2-digit", hourCycle: "h23",
});

// -- building -------------------------------------------------------------------------------------

const columns = new Map(); // body of a table -> what its columns are called

function columnsOf(body) {
  if (!columns.has(body)) {
    const heads = body.closest("table").querySelectorAll("thead th");
    columns.set(body, Array.from(heads, (each) => each.textContent));
  }
  return columns.get(body);
}

/** A row of cells, named for phones by the columns of the table it goes into. */
function row(body, cells, kind = "") {
  const labels = columnsOf(body);
  const made = make("tr", kind);
  cells.forEach((content, n) => {
    const parts = Array.isArray(content) ? content : [content];
    const shown = parts.filter((each) => each !== null && each !== undefined && each !== "");
    const cell = make("td", shown.length ? "" : "empty", make("div", "", ...shown));
    cell.dataset.label = labels[n] ?? "";
    made.append(cell);
  });
  return made;
}

const plural = (n, noun) => `${n} ${noun}${n === 1 ? "" : "s"}`;
const number = (value) => make("span", "number", count.format(value));
const when = (ms) => (ms ? day.format(ms).replace(",", "") : "");
const soft = (text) => (text ? make("div", "soft", text) : null);

function duration(ms) {
  if (ms === null || ms === undefined || Number.isNaN(ms)) return "";
  if (ms < 1000) return `${Math.max(0, Math.round(ms))} ms`;
  const s = ms / 1000;
  if (s < 60) return `${s.toFixed(1)} s`;
  if (s < 3600) return `${Math.floor(s / 60)} min ${Math.floor(s % 60)} s`;
  if (s < 86400) return `${Math.floor(s / 3600)} h ${Math.floor((s % 3600) / 60)} min`;
  return `${Math.floor(s / 86400)} d ${Math.floor((s % 86400) / 3600)} h`;
}

const between = (from, to) => (from && to ? duration(to - from) : "");
const named = (job) => [job.database, job.table].filter(Boolean).join(".");

// -- jobs -----------------------------------------------------------------------------------------

function path(steps) {
  const list = make("ol", "path");
  steps.path.forEach((state, n) => {
    const item = make("li", n < steps.at ? "done" : n === steps.at ? "here" : "");
    item.classList.add(stateName(state));
    if (n === steps.at) item.setAttribute("aria-current", "step");
    item.append(make("span", "", state));
    list.append(item);
  });
  return list;
}

const KINDS = {
  running: "good", held: "warn", paused: "warn", pausing: "warn", cancelling: "bad",
  rollingback: "bad",
};

function progress(steps) {
  const parts = [];
  const left = steps.left_s, speed = steps.rows_per_s;
  if (left !== undefined && speed) {
    const share = steps.rows / Math.max(1, steps.rows + left * speed);
    const fill = make("i");
    fill.style.width = `${(share * 100).toFixed(1)}%`;
    parts.push(make("div", "number", `${Math.floor(share * 100)} %`), make("div", "bar", fill));
  }
  if (steps.rows) parts.push(make("div", "number", `${count.format(steps.rows)} rows`));
  const pace = [speed && `${count.format(speed)} rows/s`, left !== undefined && `${duration(left * 1000).replace(".0", "")} left`];
  parts.push(soft(pace.filter(Boolean).join(", ")));
  return parts;
}

/** What of a note is not drawn elsewhere. */
function rest(note) {
  return note.split(", ").filter((each) => !/^\d+ (rows\/s|s left)$/.test(each)).join(", ");
}

function jobRows(body, job) {
  const state = make("span", `tag ${KINDS[job.state] ?? ""}`, job.state);
  const asked = [job.by, make("div", "soft time", when(job.created_ms))];
  if (job.started_ms && job.started_ms > job.created_ms) {
    asked.push(soft(`queued for ${between(job.created_ms, job.started_ms)}`));
  }
  const query = make("code", "clip", job.query);
  query.title = job.query;
  const why = [
    job.wait && make("div", "warn", job.wait),
    job.subs ? "" : rest(job.note),
    job.hold && job.state !== "held" && soft(`hold before: ${job.hold}`),
    job.error && make("div", "bad", job.error),
  ];
  const rows = [
    row(body, [
      [make("div", "number", `${job.id}`), soft(job.type)],
      [named(job), query],
      [state, job.path.length ? path(job) : null],
      job.subs ? "" : progress(job),
      why.filter(Boolean),
      asked,
      commands.buttons(job),
    ]),
  ];
  for (const sub of job.subs ?? []) {
    const tag = make("span", `tag ${KINDS[sub.state] ?? ""}`, sub.state);
    rows.push(row(body, ["", sub.type, [tag, path(sub)], progress(sub), rest(sub.note), "", ""], "sub"));
  }
  if (job.subs_more) rows.push(row(body, ["", `and ${job.subs_more} more`, "", "", "", "", ""], "sub"));
  return rows;
}

/** Rows of jobs: of those that match, as many as were scrolled to; a row is made anew when its job
 *  changed. The button below the last row is what is looked at: it is less than a window away. */
class Jobs {
  constructor() {
    this.body = by("jobs-rows");
    this.made = new Map(); // id -> rows
    this.jobs = new Map();
    this.unfinished = 0;
    this.below = new IntersectionObserver((seen) => {
      if (!seen.at(-1).isIntersecting || this.shown >= this.most) return;
      this.shown += STEP;
      this.draw();
    }, { rootMargin: "0px 0px 100% 0px" });
    this.first();
    this.body.addEventListener("click", (event) => commands.pressed(event, this.jobs));
    by("jobs-filter").addEventListener("input", () => { this.first(); this.draw(); });
    by("jobs-more").addEventListener("click", () => {
      this.most = this.shown + PAGE;
      this.shown += STEP;
      this.draw();
    });
  }

  first() {
    this.shown = STEP; // rows that are made
    this.most = PAGE; // rows that scrolling may make
  }

  anew() {
    by("jobs").classList.toggle("with-buttons", Boolean(commands.user));
    this.made.clear();
    this.draw();
  }

  told(state) {
    this.jobs = state.jobs;
    this.unfinished = state.unfinished;
    if (state.changed === null) this.made.clear();
    else for (const id of state.changed) this.made.delete(id);
    this.draw();
  }

  draw() {
    const words = by("jobs-filter").value.toLowerCase().split(/\s+/).filter(Boolean);
    const found = [...this.jobs.values()].filter((job) => matches(job, words)).sort(order);
    const rows = [];
    for (const job of found.slice(0, this.shown)) {
      if (!this.made.has(job.id)) this.made.set(job.id, jobRows(this.body, job));
      rows.push(...this.made.get(job.id));
    }
    const focused = document.activeElement?.dataset?.what && document.activeElement.getAttribute("aria-label");
    settle(this.body, rows);
    if (focused && document.activeElement === document.body) {
      const again = [...this.body.querySelectorAll("button")].find((each) => each.getAttribute("aria-label") === focused);
      (again ?? by("jobs-filter")).focus();
    }
    const all = this.unfinished;
    by("jobs-count").textContent = words.length
      ? `${count.format(found.length)} of ${count.format(all)}`
      : all > this.jobs.size ? `the first ${count.format(this.jobs.size)} of ${count.format(all)}`
      : all ? count.format(all) : "";
    by("jobs-none").hidden = found.length > 0;
    by("jobs-none").textContent = all ? "No job matches." : "No unfinished jobs.";
    const left = found.length - this.shown;
    by("jobs-more").hidden = left <= 0;
    by("jobs-more").textContent = `Load more (${count.format(Math.max(0, left))})`;
    this.below.unobserve(by("jobs-more")); // an observer tells of changes; this asks where it is now
    if (left > 0) this.below.observe(by("jobs-more"));
  }
}

function matches(job, words) {
  if (!words.length) return true;
  const text = `${job.id} ${named(job)} ${job.type} ${job.state} ${job.schema_state} ${job.by} ${job.wait}`;
  return words.every((word) => text.toLowerCase().includes(word));
}

/** Those that have begun first, then by their number: the order in which they are taken up. */
function order(one, other) {
  return Number(!one.started_ms) - Number(!other.started_ms) || one.id - other.id;
}

/** The body has these rows, in this order; those that stay are not touched, nor is their focus. */
function settle(body, rows) {
  const wanted = new Set(rows);
  for (const each of [...body.children]) if (!wanted.has(each)) each.remove();
  let next = body.firstElementChild;
  for (const each of rows) {
    if (each === next) next = next.nextElementSibling;
    else body.insertBefore(each, next);
  }
}

// -- cluster, events, statistics ------------------------------------------------------------------

function fill(id, rows) {
  by(id).replaceChildren(...rows);
}

/** What is measured, and what the score has of it. */
function scorePart(measured, score) {
  return [make("span", "number", measured), make("div", "soft number", `${score < 0 ? "−" : "+"}${Math.abs(score).toFixed(3)}`)];
}

function showCluster(values) {
  const nodes = by("nodes-rows");
  fill("nodes-rows", values.nodes.map((node) => {
    const behind = node.behind === null ? "unknown"
      : node.behind ? make("span", "warn", `${node.behind} behind`) : soft("up to date");
    const lease = node.lease_left_s === null ? "unknown"
      : make("span", node.lease_left_s < node.lease_s / 3 ? "warn number" : "number",
        `${node.lease_left_s.toFixed(1)} of ${node.lease_s} s`);
    return row(nodes, [
      [node.address || node.id, soft(`${node.host}, process ${node.pid}`)],
      [node.kind, soft(`since ${when(node.started_ms)}`)],
      node.release || "before 0.3",
      [node.version === null ? "" : number(node.version), behind],
      lease,
      node.roles.map((role) => make("span", "tag good", role)),
      node.answers ? make("span", node.doing === "serves" ? "" : "warn", node.doing)
        : make("span", "bad", node.doing || "no answer"),
      node.awaited.map((each) => make("div", "warn", each)),
    ]);
  }));
  const fronts = values.nodes.filter((each) => each.kind === "front").length;
  facts.nodes = `${plural(fronts, "front")}, ${plural(values.nodes.length - fronts, "back")}`;
  facts.behind = values.nodes.filter((each) => each.behind || !each.answers).length;

  const handlers = by("handlers-rows");
  fill("handlers-rows", values.handlers.map((each) => row(handlers, [
    each.name, number(each.lag), each.event && `job ${each.event}`,
    each.attempts ? number(each.attempts) : "", each.error && make("span", "bad", each.error),
    each.skipped.join(", "),
  ])));

  const logs = by("logs-rows");
  by("logs-none").hidden = values.logs.length > 0;
  logs.closest("table").hidden = !values.logs.length;
  fill("logs-rows", values.logs.map((each) => row(logs, [
    `${each.database}.${each.table}`, when(each.oldest_ms), ["about ", number(each.records)],
    `about ${short(each.bytes)}B`,
  ])));

  const { running, waiting, total, error } = values.analyses;
  const body = by("analyze-rows");
  const analysis = (job, runs) => row(body, [
    job.name || `table ${job.table_id}`,
    [runs ? make("span", "tag good", "running") : null, " ", job.type],
    job.weight === undefined ? "" : make("span", "number", job.weight.toFixed(3)),
    scorePart(job.indicators.change_percentage, job.exuvia_score.change),
    scorePart(job.indicators.table_size, job.exuvia_score.size),
    scorePart(job.indicators.last_analysis_duration, job.exuvia_score.age),
    scorePart(job.has_newly_added_index ? "yes" : "no", job.exuvia_score.event),
  ]);
  fill("analyze-rows", [...running.map((job) => analysis(job, true)), ...waiting.map((job) => analysis(job, false))]);
  body.closest("table").hidden = !(running.length + waiting.length);
  by("analyze-said").textContent = error ? `Unknown: ${error}`
    : total ? `${plural(total, "table")} queued, highest priority first.` : "No table is queued.";
}

// -- history and tables ---------------------------------------------------------------------------

/** Where the job stood for how long, what was shorter than a hundredth of it left out. */
function staysOf(job) {
  const whole = job.stays.reduce((sum, [, ms]) => sum + ms, 0);
  return job.stays.filter(([name, ms]) => name !== "queueing" && ms > whole / 100)
    .map(([name, ms]) => make("div", "soft", `${name} ${duration(ms)}`));
}

function finishedRow(body, job, table) {
  const done = job.state === "synced";
  const query = make("code", "clip", job.query);
  query.title = job.query;
  return row(body, [
    make("span", "number", `${job.id}`),
    ...(table ? [named(job)] : []),
    job.type,
    [done ? null : make("span", "tag bad", job.state), make("span", "number", when(job.ended_ms)),
      job.error && make("div", "bad", job.error)],
    make("span", "number", when(job.created_ms)),
    make("span", "number", between(job.created_ms, job.started_ms ?? job.ended_ms)),
    [make("span", "number", between(job.started_ms, job.ended_ms)), ...staysOf(job)],
    job.rows ? number(job.rows) : "",
    job.by,
    query,
  ]);
}

let changes = 0; // how often tables, finished jobs or the login have changed

/** The state of a list that follows `changes`. Only the answer to its last request is shown. A
 *  request that fails leaves `isCurrent()` false, so the next event of the node repeats it. */
class Listing {
  constructor() {
    this.requests = 0;
    this.waits = false;
    this.shown = {}; // what the rows on the page are: {change, name}
  }

  isCurrent(name = "") {
    return this.shown.change === changes && this.shown.name === name;
  }

  /** Shows the answer to `path` by `show`. `name`: the filter, undefined for a further page. */
  async request(path, show, name = undefined) {
    const number = ++this.requests, change = changes;
    this.waits = true;
    try {
      const answer = await get(path);
      if (number !== this.requests) return;
      show(answer);
      if (name !== undefined) this.shown = { change, name };
    } catch (error) {
      trouble(error.message);
    } finally {
      if (number === this.requests) this.waits = false;
    }
  }
}

class History {
  constructor() {
    this.listing = new Listing();
    this.below = null;
    by("history-more").addEventListener("click", () => this.look(this.below));
    by("history-again").addEventListener("click", () => this.look(null));
  }

  follow() {
    if (!this.listing.waits && !this.listing.isCurrent()) this.look(null);
  }

  look(below) {
    const isFirst = below === null;
    return this.listing.request(`/page/history${isFirst ? "" : `?below=${below}`}`, (found) => {
      const body = by("history-rows");
      const rows = found.jobs.map((job) => finishedRow(body, job, true));
      if (isFirst) body.replaceChildren(...rows);
      else body.append(...rows);
      this.below = found.more;
      by("history-more").hidden = found.more === null;
      by("history-none").hidden = body.children.length > 0;
    }, isFirst ? "" : undefined);
  }
}

class Tables {
  constructor() {
    let timer = 0;
    this.listing = new Listing();
    this.shown = null;
    this.more = null; // behind which one the next page's are
    by("table-more").addEventListener("click", () => this.find(this.more));
    by("table-found").addEventListener("click", (event) => {
      const { database, table } = event.target.closest("button")?.dataset ?? {};
      if (database) this.show(database, table);
    });
    by("table-name").addEventListener("input", () => {
      clearTimeout(timer);
      timer = setTimeout(() => this.find(), 200);
    });
  }

  /** Those whose name begins as it says, a page of them; with `behind` the next page. */
  find(behind = null) {
    const name = this.name();
    const where = new URLSearchParams({ name, database: behind?.[0] ?? "", table: behind?.[1] ?? "" });
    return this.listing.request(`/page/tables?${where}`, (found) => {
      const items = found.tables.map(([database, table]) => {
        const button = make("button", "", `${database}.${table}`);
        button.type = "button";
        Object.assign(button.dataset, { database, table });
        return make("li", "", button);
      });
      if (!items.length) items.push(make("li", "soft", name ? "No table with this prefix." : "No tables yet."));
      if (behind) by("table-found").append(...items);
      else by("table-found").replaceChildren(...items);
      this.more = found.more ?? null;
      by("table-more").hidden = !this.more;
      if (behind) items[0]?.querySelector("button")?.focus();
    }, behind ? undefined : name);
  }

  name() {
    return by("table-name").value.trim();
  }

  /** Another login sees other parts of it. */
  anew() {
    if (this.shown) this.show(...this.shown, false);
  }

  /** The first page, unless a further one of the same filter is shown or the focus is in the list. */
  follow() {
    const list = by("table-found"), name = this.name();
    if (this.listing.waits || this.listing.isCurrent(name)) return;
    const isFurther = list.children.length > FIRST_TABLES && this.listing.shown.name === name;
    if (!isFurther && !list.contains(document.activeElement)) this.find();
  }

  /** What ANALYZE found of its columns and indexes, and its drawing once it is asked for. */
  async statistics(parts) {
    const place = by("table-statistics"), said = by("table-statistics-said");
    place.replaceChildren();
    if (!commands.user) {
      said.textContent = "Log in to see histograms: they contain values of rows.";
      return;
    }
    try {
      const { statistics } = await get(`/page/statistics?id=${parts.id}`);
      said.textContent = statistics.length ? "" : "No statistics: run ANALYZE TABLE.";
      for (const each of statistics) {
        const name = (each.index ? parts.indexes : parts.columns)[each.id];
        if (!name) continue; // it has gone since
        const summary = make("summary", "", make("b", "", name), each.index ? " index" : "",
          make("span", "soft", ` ${count.format(each.distinct)} distinct, ${count.format(each.nulls)} NULL`));
        const details = make("details", "", summary);
        details.addEventListener("toggle", async () => {
          if (!details.open || details.children.length > 1) return;
          try {
            const found = await get(`/page/statistics?id=${parts.id}&index=${each.index}&of=${each.id}`);
            details.append(histogram(name, found));
          } catch (error) {
            details.append(make("p", "bad", error.message));
          }
        });
        place.append(details);
      }
    } catch (error) {
      said.textContent = error.message;
    }
  }

  async show(database, table, focus = true) {
    this.shown = [database, table];
    by("table-shown").hidden = false;
    by("table-jobs").replaceChildren();
    by("table-heading").textContent = `${database}.${table}`;
    try {
      const where = new URLSearchParams({ database, table });
      const found = await get(`/page/table?${where}`);
      by("table-create").textContent = found.create;
      this.statistics(found.parts);
      const body = by("table-jobs");
      body.replaceChildren(...found.jobs.map((job) => finishedRow(body, job, false)));
    } catch (error) {
      by("table-create").textContent = error.message;
    }
    if (focus) by("table-heading").focus();
  }
}

// -- all together ---------------------------------------------------------------------------------

const facts = { nodes: "", behind: 0 };
const shownFacts = new Map();

function fact(name, text, kind = "") {
  let known = shownFacts.get(name);
  if (!known) {
    known = make("dd");
    by("facts").append(make("div", "", make("dt", "", name), known));
    shownFacts.set(name, known);
  }
  known.className = kind;
  if (known.textContent !== text) known.textContent = text;
}

function trouble(text) {
  by("trouble").hidden = !text;
  if (by("trouble").textContent !== text) by("trouble").textContent = text;
}

function steps(job) {
  const subs = job.subs ?? [];
  return subs.find((sub) => sub.rows_per_s) ?? subs.find((sub) => sub.state === "running") ?? job;
}

const chart = new Chart(by("chart"), by("chart-said"));
const jobs = new Jobs();
const commands = new Commands(() => {
  jobs.anew();
  tables.anew();
  changes++;
  history.follow();
  tables.follow();
});
const history = new History();
const tables = new Tables();
let begun = new Set();
let version = null; // of the schema, when it was looked at last

function showLive(state) {
  const active = [];
  let rate = 0, allowed = null, p99 = state.p99_ms;
  for (const job of state.jobs.values()) {
    if (!job.started_ms) continue;
    const now = steps(job);
    active.push({ id: job.id, label: job.type, state: now.schema_state });
    rate += now.rows_per_s ?? 0;
    if (now.allowed_ms !== undefined) allowed = Math.max(allowed ?? 0, now.allowed_ms);
  }
  chart.add({ t: state.time_ms, p99, allowed, rate, lanes: active.slice(0, 4) });
  jobs.told(state);
  fact("Schema version", count.format(state.version));
  fact("Schema owner", state.owner || "none", state.owner ? "text" : "text bad");
  fact("Unfinished jobs", count.format(state.unfinished));
  fact("Client p99", p99 === null ? "–" : `${short(p99)} ms`);
  fact("Rows per second", rate < 1e4 ? count.format(rate) : short(rate));
  fact("Nodes", facts.nodes || "…", "text");
  fact("Nodes behind", facts.nodes ? `${facts.behind}` : "…", facts.behind ? "warn" : "");
  document.title = state.unfinished ? `${plural(state.unfinished, "job")} – Exuvia` : "Exuvia";
  const ids = new Set(state.jobs.keys());
  if (state.version !== version || [...begun].some((id) => !ids.has(id))) changes++; // a job may be quick
  version = state.version;
  begun = ids;
  history.follow();
  tables.follow();
}

follow({
  live: showLive,
  cluster: showCluster,
  link: (kind, text) => {
    const link = by("link");
    link.className = `link ${kind}`;
    if (link.textContent !== text) link.textContent = text;
  },
  trouble,
  refused: (error) => { if (error.status === 401) commands.open("This node requires a login."); },
});
