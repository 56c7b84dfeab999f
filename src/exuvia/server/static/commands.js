// Logging in, and the buttons of jobs. What they may do is decided by the node, as for SQL.

import { make } from "/elements.js";
import { get, keepToken, post } from "/feed.js";

const by = (id) => document.getElementById(id);

/** What may be asked of a job as it stands: [word, what the button says]. */
function choices(job) {
  const found = [];
  const rolls = ["cancelling", "rollingback", "done", "cancelled", "synced", "rollback done"];
  if (["queueing", "running", "none"].includes(job.state)) found.push(["pause", "Pause"]);
  if (job.state === "paused") found.push(["resume", "Resume"]);
  if (job.hold) found.push(["complete", "Complete"]);
  else if (!rolls.includes(job.state)) found.push(["hold", "Hold"]);
  if (job.alterable && !rolls.includes(job.state)) found.push(["alter", "Settings"]);
  if (!rolls.includes(job.state)) found.push(["cancel", "Cancel"]);
  return found;
}

export class Commands {
  /** `changed()` is called when somebody logs in or out. */
  constructor(changed) {
    this.changed = changed;
    this.user = "";
    this.asked = null; // {job, what} of the dialog that is open
    this.fading = 0; // what went well is said for a while
    by("login-open").addEventListener("click", () => this.open());
    by("logout").addEventListener("click", () => this.logOut());
    by("login-form").addEventListener("submit", (event) => { event.preventDefault(); this.logIn(); });
    by("command-form").addEventListener("submit", (event) => { event.preventDefault(); this.sure(); });
    for (const each of document.querySelectorAll("dialog .no")) {
      each.addEventListener("click", () => each.closest("dialog").close());
    }
    this.look();
  }

  async look() {
    try {
      const found = await get("/page/session");
      this.is(found.user ?? "");
    } catch {
      this.is("");
    }
  }

  is(user) {
    const other = user !== this.user;
    this.user = user;
    by("login-open").hidden = Boolean(user);
    by("logout").hidden = !user;
    by("who").textContent = user;
    by("footer-said").textContent = user
      ? `The privileges of ${user} apply, as for ADMIN statements.`
      : "Read-only until you log in with an account of this database.";
    if (other) this.changed();
  }

  open(why = "") {
    by("login-said").textContent = why;
    if (!by("login").open) by("login").showModal();
    by(by("login-user").value ? "login-password" : "login-user").focus();
  }

  async logIn() {
    const user = by("login-user").value, password = by("login-password").value;
    try {
      const found = await post("/page/login", { user, password });
      keepToken(found.token);
      by("login").close();
      this.is(found.user);
      this.say(`Logged in as ${found.user}.`);
    } catch (error) {
      by("login-said").textContent = error.message;
      by("login-password").select();
    } finally {
      by("login-password").value = "";
    }
  }

  async logOut() {
    await post("/page/logout", {}).catch(() => {});
    keepToken("");
    this.is("");
    this.say("Logged out.");
    by("login-open").focus();
  }

  /** The buttons of a job, none for who has not logged in. Who holds them listens: `pressed`. */
  buttons(job) {
    if (!this.user) return null;
    const group = make("div", "buttons");
    group.setAttribute("role", "group");
    group.setAttribute("aria-label", `Job ${job.id}`);
    for (const [what, text] of choices(job)) {
      const button = make("button", what === "cancel" ? "danger" : "", text);
      button.type = "button";
      button.dataset.what = what;
      button.setAttribute("aria-label", `${text} job ${job.id}`);
      button.dataset.job = job.id;
      group.append(button);
    }
    return group;
  }

  /** A click somewhere among buttons of jobs, which are in a Map by id. */
  pressed(event, jobs) {
    const { what, job } = event.target.closest("button")?.dataset ?? {};
    if (jobs.has(Number(job))) this.press(what, jobs.get(Number(job)));
  }

  press(what, job) {
    if (what !== "cancel" && what !== "alter") {
      this.run({ what, job: job.id });
      return;
    }
    this.asked = { what, job: job.id };
    const cancels = what === "cancel";
    by("command-title").textContent = cancels ? `Cancel job ${job.id}?` : `Settings of job ${job.id}`;
    by("command-about").textContent = cancels
      ? `${job.type} on ${[job.database, job.table].filter(Boolean).join(".")}: its work is undone.`
      : "They apply from the next batch. Empty fields do not change.";
    by("command-settings").hidden = cancels;
    by("command-yes").textContent = cancels ? "Cancel job" : "Apply";
    by("command-no").textContent = cancels ? "Keep running" : "Close";
    by("command-said").textContent = "";
    by("command-form").reset();
    by("command").showModal();
    if (!cancels) by("set-thread").focus();
  }

  async sure() {
    const asked = { ...this.asked };
    if (asked.what === "alter") {
      const whole = { thread: by("set-thread").value, batch_size: by("set-batch").value };
      for (const [name, value] of Object.entries(whole)) if (value) asked[name] = Number(value);
      if (by("set-speed").value) asked.max_write_speed = by("set-speed").value.trim();
    }
    if (await this.run(asked, by("command-said"))) by("command").close();
  }

  /** Whether it was done; what is said of it goes to where a screen reader hears it. */
  async run(asked, place = by("said")) {
    try {
      const found = await post("/page/command", asked);
      const well = found.said === "successful";
      this.say(`${found.statement}: ${found.said}`, well ? "" : "bad", well ? by("said") : place);
      return well;
    } catch (error) {
      if (error.status === 401) {
        keepToken("");
        this.is("");
        by("command").close();
        this.open("Your login has expired. Log in again.");
      } else {
        this.say(error.message, "bad", place);
      }
      return false;
    }
  }

  say(text, kind = "", place = by("said")) {
    place.className = `said-line ${kind}`;
    place.textContent = text;
    clearTimeout(this.fading);
    if (!kind) this.fading = setTimeout(() => { place.textContent = ""; }, 15_000);
  }
}
