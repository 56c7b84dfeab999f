// Clients' p99 and rows a second on one time axis, states of running jobs as bands behind them.

const KEPT_MS = 15 * 60_000;
const LEAST_MS = 60_000;
const GAP_MS = 5_000;
const LANES = 4;

export class Chart {
  constructor(canvas, said) {
    this.canvas = canvas;
    this.said = said;
    this.samples = [];
    new ResizeObserver(() => this.draw()).observe(canvas.parentElement);
    matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => this.draw());
  }

  /** A sample: {t, p99, allowed, rate, lanes: [{id, label, state}]}; p99 null where unknown. */
  add(sample) {
    this.samples.push(sample);
    while (this.samples.length && sample.t - this.samples[0].t > KEPT_MS) this.samples.shift();
    this.draw();
  }

  draw() {
    const { canvas, samples } = this;
    const width = canvas.parentElement.clientWidth;
    const height = canvas.parentElement.clientHeight;
    const ratio = devicePixelRatio || 1;
    canvas.width = width * ratio;
    canvas.height = height * ratio;
    const pen = canvas.getContext("2d");
    pen.scale(ratio, ratio);
    const style = getComputedStyle(document.documentElement);
    const colour = (name) => style.getPropertyValue(`--${name}`).trim();
    const letter = parseFloat(style.fontSize) * 0.8;
    pen.font = `${letter}px ${style.fontFamily}`;
    pen.textBaseline = "middle";

    const now = samples.at(-1)?.t ?? 0;
    const span = Math.max(LEAST_MS, samples.length ? now - samples[0].t : 0);
    const left = letter * 5, right = width - letter * 6, top = letter, bottom = height - letter * 1.8;
    const x = (t) => right - ((now - t) / span) * (right - left);
    const mostP99 = nice(Math.max(1, ...samples.map((s) => Math.max(s.p99 ?? 0, s.allowed ?? 0))));
    const mostRate = nice(Math.max(1, ...samples.map((s) => s.rate)));
    const y = (value, most) => bottom - (value / most) * (bottom - top);

    this.bands(pen, x, top, bottom, letter, colour);
    pen.lineWidth = 1;
    for (const part of [0, 0.5, 1]) {
      pen.strokeStyle = colour("line");
      const at = Math.round(y(part, 1)) + 0.5;
      line(pen, [[left, at], [right, at]]);
      pen.textAlign = "right";
      pen.fillStyle = colour("p99");
      pen.fillText(`${short(part * mostP99)} ms`, left - 6, at);
      pen.textAlign = "left";
      pen.fillStyle = colour("rate");
      pen.fillText(`${short(part * mostRate)}/s`, right + 6, at);
    }
    pen.fillStyle = colour("soft");
    pen.textAlign = "left";
    pen.fillText(`${clock(span)} ago`, left, bottom + letter);
    pen.textAlign = "right";
    pen.fillText("now", right, bottom + letter);

    const curve = (value, most, name, dashes = []) => {
      pen.strokeStyle = colour(name);
      pen.lineWidth = 2;
      pen.setLineDash(dashes);
      for (const run of runs(samples, value)) {
        line(pen, run.map((s) => [x(s.t), y(value(s), most)]));
      }
      pen.setLineDash([]);
    };
    curve((s) => s.rate, mostRate, "rate");
    curve((s) => s.allowed, mostP99, "allowed", [5, 4]);
    curve((s) => s.p99, mostP99, "p99");
    this.say();
  }

  /** One lane a job, one colour a state, its name where there is room. */
  bands(pen, x, top, bottom, letter, colour) {
    const open = new Map();
    const closed = [];
    let before = null;
    for (const sample of this.samples) {
      const gap = before !== null && sample.t - before > GAP_MS;
      const shown = sample.lanes.slice(0, LANES);
      for (const [id, band] of open) {
        const lane = shown.find((each) => each.id === id);
        if (gap || !lane || lane.state !== band.state) {
          closed.push(band);
          open.delete(id);
          if (lane && !gap) band.end = sample.t;
        }
      }
      for (const lane of shown) {
        const band = open.get(lane.id);
        if (band) band.end = sample.t;
        else open.set(lane.id, { ...lane, begin: sample.t, end: sample.t });
      }
      before = sample.t;
    }
    const all = [...closed, ...open.values()];
    const ids = [...new Set(all.map((band) => band.id))].sort((a, b) => a - b);
    const rows = lanes(ids.map((id) => all.filter((band) => band.id === id)));
    const high = letter * 1.5;
    for (const band of all) {
      const from = x(band.begin), wide = Math.max(2, x(band.end) - from);
      const at = top + rows.get(band.id) * (high + 2);
      pen.fillStyle = colour(stateName(band.state));
      pen.globalAlpha = rows.get(band.id) === 0 ? 0.13 : 0;
      pen.fillRect(from, top, wide, bottom - top);
      pen.globalAlpha = 0.9;
      pen.fillRect(from, at, wide, high);
      pen.globalAlpha = 1;
      const texts = [`${band.id} ${band.label}: ${band.state}`, band.state, `${band.id}`];
      const fits = texts.find((text) => pen.measureText(text).width < wide - 8);
      if (fits) {
        pen.fillStyle = colour("card");
        pen.textAlign = "left";
        pen.fillText(fits, from + 4, at + high / 2);
      }
    }
  }

  say() {
    const last = this.samples.at(-1);
    if (!last) return;
    const p99 = last.p99 === null ? "no statements of clients" : `p99 ${short(last.p99)} ms`;
    const text = `${p99}, ${short(last.rate)} rows/s`;
    if (this.said.textContent !== text) this.said.textContent = text;
  }
}

/** Colour of a schema state, as the path has it. */
export function stateName(state) {
  if (state.includes("reorg")) return "s-reorg";
  if (state.startsWith("delete")) return "s-delete";
  if (state.startsWith("write")) return "s-write";
  return state === "public" ? "s-public" : "s-none";
}

/** Jobs that follow one another share a lane. */
function lanes(jobs) {
  const ends = [];
  const rows = new Map();
  for (const bands of jobs) {
    const begin = Math.min(...bands.map((band) => band.begin));
    const end = Math.max(...bands.map((band) => band.end));
    let row = ends.findIndex((each) => each <= begin);
    if (row < 0) row = ends.length;
    ends[row] = end;
    rows.set(bands[0].id, row);
  }
  return rows;
}

function* runs(samples, value) {
  let run = [];
  for (const sample of samples) {
    const known = value(sample) !== null && value(sample) !== undefined;
    if (run.length && (!known || sample.t - run.at(-1).t > GAP_MS)) {
      yield run;
      run = [];
    }
    if (known) run.push(sample);
  }
  if (run.length) yield run;
}

function line(pen, points) {
  pen.beginPath();
  if (points.length === 1) points = [points[0], [points[0][0] + 1, points[0][1]]];
  points.forEach(([px, py], n) => (n ? pen.lineTo(px, py) : pen.moveTo(px, py)));
  pen.stroke();
}

function nice(value) {
  const power = 10 ** Math.floor(Math.log10(value));
  return [1, 2, 5, 10].map((each) => each * power).find((each) => each >= value);
}

/** 1234567 as 1.23M. */
export function short(value) {
  if (value >= 1e6) return `${+(value / 1e6).toPrecision(3)}M`;
  if (value >= 1e4) return `${+(value / 1e3).toPrecision(3)}k`;
  return `${+value.toPrecision(3)}`;
}

function clock(ms) {
  const seconds = Math.round(ms / 1000);
  return seconds < 120 ? `${seconds} s` : `${Math.round(seconds / 60)} min`;
}
