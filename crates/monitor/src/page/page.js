// The live page: takes a snapshot a second from /events, and draws the last minutes.
//
//   events ──> samples, tracks ──> figures, charts, tables
//   a saved file has both in the element #saved, and asks nobody
//
// What is shown ends now, or at a moment of the past: that was marked with the mouse, or come to
// with the buttons.
"use strict";
(() => {
  // What came last into browsers, of what is used here. One that lacks it keeps the page's own words.
  if (typeof Array.prototype.findLast !== "function") return;
  const KEPT = 900; // seconds
  const TRACKS = 64; // files
  const IDLE = 3000; // milliseconds
  const samples = [];
  const tracks = new Map(); // name of a file -> its size, places and waste over time
  let paused = false;
  let ends = null; // what is shown ends there; null: now
  let marked = 0; // milliseconds that were marked with the mouse
  let served = new Map(); // streams -> the storage's time that they had at the last look
  const byId = (id) => document.getElementById(id);

  // ---- texts -------------------------------------------------------------------------------
  const scaled = (value, units, step) => {
    let at = 0;
    while (value >= step && at < units.length - 1) { value /= step; at += 1; }
    return `${value < 10 && at > 0 ? value.toFixed(1) : Math.round(value)} ${units[at]}`;
  };
  const speed = (rate) => scaled(rate, ["B/s", "kB/s", "MB/s", "GB/s"], 1000);
  const size = (bytes) => scaled(bytes, ["B", "KiB", "MiB", "GiB", "TiB"], 1024);
  const time = (us) => us < 1000 ? `${us} us` : us < 1e7 ? `${Math.round(us / 1000)} ms` : `${Math.round(us / 1e6)} s`;
  const percent = (part, whole) => whole > 0 ? `${(100 * part / whole).toFixed(part > 0 && part < whole / 10 ? 1 : 0)} %` : "-";
  const count = (value) => value < 10 && !Number.isInteger(value) ? value.toFixed(1) : Math.round(value).toLocaleString("en");
  const clock = (at) => new Date(at).toLocaleTimeString();
  // What would break a line, or turn the letters behind it round, is written out.
  const plain = (name) => name.replace(/[\u0000-\u001f\u007f-\u009f\u200e\u200f\u2028-\u202e\u2066-\u2069]/g,
    (letter) => `\\u${letter.charCodeAt(0).toString(16).padStart(4, "0")}`);
  const short = (name) => {
    const letters = [...plain(name)];
    return letters.length > 64 ? `${letters.slice(0, 20).join("")}…${letters.slice(-43).join("")}` : letters.join("");
  };

  // ---- samples -----------------------------------------------------------------------------
  const track = (name) => {
    const known = tracks.get(name) ?? { size: 0, places: [], waste: [] };
    tracks.delete(name);
    tracks.set(name, known);
    return known;
  };

  const note = (snapshot) => {
    for (const stream of snapshot.streams) {
      // Of a stream that is not read any more, its last place is enough.
      if (stream.idle_ms > IDLE && tracks.has(stream.key)) continue;
      const known = track(stream.key);
      known.size = stream.size_bytes;
      known.places.push({ at_ms: snapshot.at_ms, read: stream.position_bytes, ahead: stream.planned_bytes });
      if (known.places.length > 2 * KEPT) known.places.shift();
    }
    for (const piece of snapshot.wasted) {
      const known = track(piece.key);
      known.waste.push({ at_ms: snapshot.at_ms - piece.ago_ms, start: piece.start_bytes, end: piece.end_bytes, thrashed: piece.thrashed });
      if (known.waste.length > KEPT) known.waste.shift();
    }
    for (const file of snapshot.files) {
      if (tracks.has(file.key)) tracks.get(file.key).size = file.size_bytes;
    }
    const chosen = byId("file").value;
    for (const name of tracks.keys()) {
      if (tracks.size <= TRACKS) break;
      if (name !== chosen) tracks.delete(name);
    }
  };

  // The part of the storage's time that each stream had since the last look.
  const shares = (streams, whole) => {
    const now = new Map();
    for (const stream of streams) {
      const name = `${stream.id} ${stream.key}`;
      const before = served.get(name);
      now.set(name, stream.served_us);
      // A stream that was forgotten begins at nothing again.
      const had = before === undefined ? null : stream.served_us - (before > stream.served_us ? 0 : before);
      stream.share = had === null || whole <= 0 ? null : Math.min(had / whole, 1);
    }
    served = now;
  };

  const add = (snapshot) => {
    const last = samples.at(-1);
    const seconds = last ? Math.max((snapshot.at_ms - last.at_ms) / 1000, 0.001) : 0;
    const { stats, link, service } = snapshot;
    const between = (now, before) => last ? Math.max(now - before, 0) / seconds : 0;
    const since = (get) => last ? between(get(stats), get(last.stats)) : 0;
    const other = (s) => s.memory_directories_bytes + s.memory_names_bytes + (s.cache?.memory_bytes ?? 0);
    const spent = [between(service.demand_us, last?.service.demand_us), between(service.readahead_us, last?.service.readahead_us)];
    shares(snapshot.streams, (spent[0] + spent[1]) * seconds);
    note(snapshot);
    samples.push({
      at_ms: snapshot.at_ms, stats, link, service,
      hasRates: last !== undefined,
      read: since((s) => s.read_bytes),
      fetched: since((s) => s.fetched_bytes),
      cached: since((s) => s.cache?.read_bytes ?? 0),
      requests: since((s) => s.requests),
      reads: since((s) => s.reads),
      waiting: since((s) => s.reads - s.hits),
      parts: [stats.memory_read_bytes, stats.memory_ahead_bytes, other(stats)],
      // Requests that were at the storage at a time, if each took as long as it is charged.
      spent: spent.map((us) => us / 1e6),
      live: {
        streams: snapshot.streams, more: snapshot.more_streams, files: snapshot.files, more_files: snapshot.more_files,
        more_wasted: snapshot.more_wasted, errors: snapshot.errors,
      },
    });
    if (samples.length > KEPT) samples.shift();
    // Tables are of the last look alone.
    if (last) last.live = null;
  };

  // ---- figures and tables ------------------------------------------------------------------
  const figures = (sample) => {
    const { stats, link } = sample;
    const { waited } = stats;
    const crowded = link.is_crowded ? ", crowded" : link.is_growing ? ", may carry more" : "";
    const rows = [
      ["to programs", `${speed(sample.read)}, ${count(sample.reads)} reads/s, ${percent(sample.reads - sample.waiting, sample.reads)} from memory`],
      ["from the storage", `${speed(sample.fetched)}, ${count(sample.requests)} requests/s`],
      ["waits so far", `half within ${time(waited.p50_us)}, 99 % within ${time(waited.p99_us)}, all within ${time(waited.max_us)}; ${stats.slow_reads} slow`],
      ["in vain", `${percent(stats.wasted_bytes, stats.fetched_bytes)} of what came was not read, ${percent(stats.thrashed_bytes, stats.fetched_bytes)} for want of memory`],
      ["memory", `${size(stats.memory_charged_bytes)} of ${size(stats.memory_budget_bytes)}, ${size(stats.memory_pending_bytes)} requested`],
      ["link", link.first_byte_us ? `${time(link.first_byte_us)} to a first byte, ${speed(link.connection_bytes_per_s)} a request, ${speed(link.bytes_per_s)} in all; ${link.requests} of ${link.requests_max} requests${crowded}` : "not known yet"],
    ];
    const cache = stats.cache;
    if (cache) rows.push(["cache", `${speed(sample.cached)}, ${size(cache.kept_bytes)} kept, ${size(cache.dropped_bytes)} dropped`]);
    const troubles = [[stats.read_errors, "reads failed"], [stats.retries, "requests were made again"],
      [stats.panics, "panics"], [cache?.wrong, "damaged pieces of the cache"], [cache?.silences, "silences of its disk"]];
    const told = troubles.filter(([number]) => number > 0).map(([number, what]) => `${number} ${what}`);
    if (told.length) rows.push(["trouble", told.join(", "), true]);
    return rows;
  };

  const element = (name, text, kind) => {
    const made = document.createElement(name);
    made.textContent = text;
    if (kind) made.className = kind;
    return made;
  };

  const rows = (id, all) => byId(id).replaceChildren(...all.map((cells) => {
    const row = document.createElement("tr");
    row.append(...cells.map(([text, whole]) => {
      const cell = element("td", text);
      if (whole !== undefined && whole !== text) cell.title = plain(whole);
      return cell;
    }));
    return row;
  }));

  const WHAT = { read: "a read failed", name: "a name failed", again: "asked again", ahead: "ahead of any read" };

  const tables = ({ streams, more, files, more_files, errors }) => {
    rows("streams", streams.map((stream) => {
      const backward = stream.delta_bytes < 0 && -stream.delta_bytes === stream.record_bytes;
      return [
        [short(stream.key), stream.key], [backward ? "backward" : stream.shape], [percent(stream.position_bytes, stream.size_bytes)],
        [size(stream.window_bytes)], [stream.bound], [stream.bytes_per_s ? speed(stream.bytes_per_s) : "-"],
        [stream.share === null ? "-" : percent(stream.share, 1)], [String(stream.late_reads)], [time(stream.idle_ms * 1000)],
        [stream.process ? `${short(stream.process)} ${stream.pid}` : "-"],
      ];
    }));
    byId("more").textContent = more > 0 ? `${count(more)} more streams were read earlier.`
      : streams.length ? "" : "No reads form a stream just now.";
    rows("files", files.map((file) => [
      [short(file.key), file.key], [size(file.size_bytes)], [size(file.read_bytes)], [size(file.fetched_bytes)],
      [size(file.wasted_bytes)], [count(file.late_reads)],
    ]));
    byId("more-files").textContent = more_files > 0 ? `${count(more_files)} more files, of which less was read and fetched.`
      : files.length ? "" : "No file has been read.";
    rows("errors", errors.map((error) => [
      [`${time(error.ago_ms * 1000)} ago`], [WHAT[error.what] ?? error.what], [error.kind],
      [error.key === undefined ? "-" : short(error.key) || "the root", error.key], [count(error.count)],
      [error.text === undefined ? "-" : short(error.text), error.text],
    ]));
    byId("more-errors").textContent = errors.length ? "" : "There were none.";
  };

  const choices = () => {
    const chosen = byId("file").value;
    const names = [...tracks.keys()].sort();
    const options = [...byId("file").options];
    // Not made anew while it may be open.
    if (options.length === names.length && options.every((option, nth) => option.value === names[nth])) return;
    // The one that was read last, at first.
    const first = [...tracks.keys()].at(-1);
    byId("file").replaceChildren(...names.map((name) => {
      const option = element("option", short(name));
      option.value = name;
      option.selected = name === (tracks.has(chosen) ? chosen : first);
      return option;
    }));
  };

  const show = () => {
    const sample = samples.findLast((one) => one.at_ms <= until()) ?? samples[0];
    byId("now-head").textContent = ends === null ? "Now" : `At ${clock(sample.at_ms)}`;
    byId("now").replaceChildren(...figures(sample).flatMap(([name, text, trouble]) =>
      [element("dt", name), element("dd", text, trouble ? "trouble" : "")]));
    tables(samples.at(-1).live);
    choices();
  };

  // ---- the time that is shown --------------------------------------------------------------
  const until = () => ends ?? samples.at(-1).at_ms;

  // As much as was chosen, or as there is.
  const shown = () => {
    const chosen = (Number(byId("span").value) * 1000) || marked;
    return ends === null ? Math.min(chosen, Math.max(samples.at(-1).at_ms - samples[0].at_ms, 30000)) : chosen;
  };

  const move = (to) => {
    const last = samples.at(-1).at_ms;
    ends = to >= last ? null : Math.max(to, Math.min(samples[0].at_ms + shown(), last));
    byId("later").disabled = ends === null;
    refresh();
  };

  // ---- charts ------------------------------------------------------------------------------
  const LEFT = 64;
  const colour = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();

  const blank = (id) => {
    const canvas = byId(id);
    const ratio = devicePixelRatio || 1;
    const [width, height] = [canvas.clientWidth, canvas.clientHeight];
    canvas.width = width * ratio;
    canvas.height = height * ratio;
    const pen = canvas.getContext("2d");
    pen.scale(ratio, ratio);
    pen.font = "12px system-ui, sans-serif";
    return { canvas, pen, width, height };
  };

  const chart = (id, low, top, text) => {
    const { canvas, pen, width, height } = blank(id);
    const bottom = height - 18;
    const span = shown();
    const end = until();
    const x = (at) => width - (end - at) / span * (width - LEFT);
    const y = (value) => bottom - (value - low) / Math.max(top - low, 1e-9) * (bottom - 8);
    pen.fillStyle = colour("--faint");
    pen.strokeStyle = colour("--line");
    for (const part of [0, 0.5, 1]) {
      pen.beginPath();
      const value = low + (top - low) * part;
      pen.moveTo(LEFT, y(value));
      pen.lineTo(width, y(value));
      pen.stroke();
      pen.fillText(text(value), 0, y(value) + 4);
    }
    const ago = span < 60000 ? `-${Math.round(span / 1000)} s` : `-${Math.round(span / 60000)} min`;
    pen.fillText(ends === null ? ago : clock(end - span), LEFT, height - 4);
    pen.textAlign = "right";
    pen.fillText(ends === null ? "now" : clock(end), width, height - 4);
    pen.save();
    pen.beginPath();
    pen.rect(LEFT, 0, width - LEFT, height);
    pen.clip();
    return { pen, x, y, canvas };
  };

  const line = ({ pen, x, y }, points, name) => {
    pen.strokeStyle = colour(name);
    pen.lineWidth = 2;
    pen.beginPath();
    points.forEach(([at, value], nth) => nth ? pen.lineTo(x(at), y(value)) : pen.moveTo(x(at), y(value)));
    pen.stroke();
  };

  const band = ({ pen, x, y }, points, name) => {
    pen.fillStyle = colour(name);
    pen.beginPath();
    points.forEach(([at, low], nth) => nth ? pen.lineTo(x(at), y(low)) : pen.moveTo(x(at), y(low)));
    [...points].reverse().forEach(([at, , high]) => pen.lineTo(x(at), y(high)));
    pen.closePath();
    pen.fill();
  };

  // Parts of a whole over time, one on the other.
  const bands = (on, seen, parts) => ["--one", "--two", "--three"].forEach((name, nth) => {
    const below = (s, end) => parts(s).slice(0, end).reduce((a, b) => a + b, 0);
    if (nth < parts(seen[0]).length) band(on, seen.map((s) => [s.at_ms, below(s, nth), below(s, nth + 1)]), name);
  });

  const most = (values, least) => values.reduce((most, value) => Math.max(most, value), least);

  const windows = ({ streams }) => {
    const { canvas, pen, width, height } = blank("window");
    // As in the table: those that were read last. Of a progression, its records count.
    const latest = streams.slice(0, 6);
    const aheadOf = (s) => Math.abs(s.planned_bytes - s.position_bytes) * (s.delta_bytes ? Math.min(s.record_bytes / Math.abs(s.delta_bytes), 1) : 1);
    const whole = most(latest.flatMap((s) => [s.window_bytes, aheadOf(s)]), 1);
    latest.forEach((stream, nth) => {
      const top = nth * height / 6;
      const ahead = aheadOf(stream);
      pen.fillStyle = colour("--two");
      pen.fillRect(1, top + 16, ahead / whole * (width - 2), 9);
      pen.strokeStyle = colour("--faint");
      pen.strokeRect(1, top + 16, stream.window_bytes / whole * (width - 2), 9);
      pen.fillStyle = colour("--ink");
      pen.fillText(`${size(stream.window_bytes)} by ${stream.bound}: ${short(stream.key)}`, 1, top + 12);
    });
    canvas.ariaLabel = latest.length
      ? `Windows: ${latest.map((s) => `${short(s.key)} ${size(s.window_bytes)} by ${s.bound}`).join(", ")}` : "No stream has a window";
  };

  const ofFile = (from, end) => {
    const name = byId("file").value;
    const known = tracks.get(name);
    const within = (one) => one.at_ms >= from && one.at_ms <= end;
    const places = known ? known.places.filter(within) : [];
    const waste = known ? known.waste.filter(within) : [];
    const edges = [...places.flatMap((p) => [p.read, p.ahead]), ...waste.flatMap((w) => [w.start, w.end])];
    const low = edges.reduce((least, edge) => Math.min(least, edge), edges[0] ?? 0);
    const offset = chart("offset", low, most(edges, low + 1048576), size);
    const { pen } = offset;
    // A file may have several readers: each has a bar of its own in each second.
    const width = Math.max(offset.x(1000) - offset.x(0), 2);
    for (const { at_ms, read, ahead } of places) {
      const [top, bottom] = [offset.y(Math.max(read, ahead)), offset.y(Math.min(read, ahead))];
      pen.fillStyle = colour("--two");
      pen.fillRect(offset.x(at_ms) - width, top, width, Math.max(bottom - top, 1));
    }
    pen.strokeStyle = colour("--trouble");
    pen.lineWidth = 1;
    for (const piece of waste) {
      const [left, top, bottom] = [offset.x(piece.at_ms) - width / 2, offset.y(piece.end), offset.y(piece.start)];
      const high = Math.max(bottom - top, 3);
      pen.save();
      pen.beginPath();
      pen.rect(left, top, Math.max(width, 5), high);
      pen.stroke();
      pen.clip();
      // Hatched: told apart without its colour, too.
      pen.beginPath();
      for (let at = -high; at < width + 5; at += 5) {
        pen.moveTo(left + at, top + high);
        pen.lineTo(left + at + high, top);
      }
      pen.stroke();
      pen.restore();
    }
    pen.fillStyle = colour("--one");
    for (const { at_ms, read } of places) pen.fillRect(offset.x(at_ms) - width, offset.y(read) - 1.5, width, 3);
    const place = places.at(-1);
    const vain = waste.reduce((sum, piece) => sum + piece.end - piece.start, 0);
    offset.canvas.ariaLabel = !known ? "No file is read as a stream" : [
      place ? `${short(name)} is read at ${size(place.read)} of ${size(known.size)}, and asked for up to ${size(place.ahead)}` : short(name),
      `${size(vain)} dropped without having been read`].join("; ");
    const told = samples.at(-1).live;
    const use = told.files.find((file) => file.key === name);
    byId("of-file").textContent = use
      ? `Of ${size(use.size_bytes)}, ${size(use.read_bytes)} went to programs, ${size(use.fetched_bytes)} came from the storage, and ${size(use.wasted_bytes)} were asked for ahead and dropped unread; ${count(use.late_reads)} reads were late.`
      : "";
    if (told.more_wasted > 0) byId("of-file").textContent += ` ${count(told.more_wasted)} more pieces in vain, of any file, are not in the picture.`;
  };

  const draw = () => {
    if (!samples.length || document.hidden) return;
    const [end, span] = [until(), shown()];
    // One more on either side, so that lines begin and end outside.
    const seen = samples.filter((one) => one.at_ms >= end - span - 1500 && one.at_ms <= end + 1500);
    const sample = samples.findLast((one) => one.at_ms <= end) ?? samples[0];
    if (!seen.length) seen.push(sample);

    const rate = chart("rate", 0, most(seen.flatMap((s) => [s.read, s.fetched, s.cached]), 1000), speed);
    const rated = seen.filter((s) => s.hasRates);
    line(rate, rated.map((s) => [s.at_ms, s.cached]), "--three");
    line(rate, rated.map((s) => [s.at_ms, s.fetched]), "--two");
    line(rate, rated.map((s) => [s.at_ms, s.read]), "--one");
    rate.canvas.ariaLabel = `Throughput: ${speed(sample.read)} to programs, ${speed(sample.fetched)} from the storage`;

    const wait = chart("wait", 0, most(seen.map((s) => s.reads), 1), count);
    line(wait, rated.map((s) => [s.at_ms, s.reads]), "--one");
    line(wait, rated.map((s) => [s.at_ms, s.waiting]), "--two");
    wait.canvas.ariaLabel = `${count(sample.reads)} reads a second, ${count(sample.waiting)} of them not from memory`;

    const budget = sample.stats.memory_budget_bytes;
    const memory = chart("memory", 0, most(seen.map((s) => s.parts.reduce((a, b) => a + b, 0)), budget), size);
    bands(memory, seen, (s) => s.parts);
    memory.canvas.ariaLabel = `Memory: ${size(sample.stats.memory_charged_bytes)} of ${size(budget)}`;

    const [waited, ahead] = sample.spent;
    const service = chart("service", 0, most(seen.map((s) => s.spent[0] + s.spent[1]), 1), count);
    if (rated.length) bands(service, rated, (s) => s.spent);
    service.canvas.ariaLabel = `The storage's time: ${percent(waited, waited + ahead)} for reads that waited for it, ${percent(ahead, waited + ahead)} ahead of any read`;

    windows(samples.at(-1).live);
    ofFile(end - span, end);
  };

  const refresh = () => { show(); draw(); };

  // ---- marking a part of the time with the mouse -------------------------------------------
  for (const id of ["rate", "wait", "memory", "service", "offset"]) {
    const canvas = byId(id);
    let from = null;
    const place = (event) => Math.min(Math.max(event.offsetX, LEFT), canvas.clientWidth);
    const at = (x) => until() - (canvas.clientWidth - x) / (canvas.clientWidth - LEFT) * shown();
    canvas.addEventListener("pointerdown", (event) => {
      if (!samples.length) return;
      from = place(event);
      canvas.setPointerCapture(event.pointerId);
    });
    canvas.addEventListener("pointermove", (event) => {
      if (from === null) return;
      draw();
      const pen = canvas.getContext("2d");
      pen.strokeStyle = colour("--ink");
      pen.lineWidth = 1;
      pen.strokeRect(Math.min(from, place(event)), 1, Math.abs(place(event) - from), canvas.clientHeight - 2);
    });
    canvas.addEventListener("pointercancel", () => { from = null; draw(); });
    canvas.addEventListener("pointerup", (event) => {
      if (from === null) return;
      const [low, high] = [Math.min(from, place(event)), Math.max(from, place(event))];
      from = null;
      if (high - low < 8) return draw();
      const [begins, stops] = [at(low), at(high)];
      marked = Math.max(stops - begins, 2000);
      byId("span").value = "0";
      move(stops);
    });
  }

  // ---- saving ------------------------------------------------------------------------------
  const save = async () => {
    const query = location.search;
    const [style, script] = await Promise.all(["page.css", "page.js"].map(async (name) => (await fetch(name + query)).text()));
    const span = byId("span").value;
    const data = { title: byId("title").textContent, samples, tracks: [...tracks], file: byId("file").value, span, marked, ends };
    const copy = document.documentElement.cloneNode(true);
    copy.querySelector("link").replaceWith(element("style", style));
    const old = copy.querySelector("script");
    const saved = element("script", JSON.stringify(data).replaceAll("<", "\\u003c"));
    saved.type = "application/json";
    saved.id = "saved";
    old.replaceWith(saved, element("script", script));
    const link = document.createElement("a");
    link.href = URL.createObjectURL(new Blob([`<!doctype html>\n${copy.outerHTML}`], { type: "text/html" }));
    link.download = `foreread-${new Date().toISOString().slice(0, 19).replaceAll(":", "")}.html`;
    link.click();
    URL.revokeObjectURL(link.href);
  };

  // ---- start -------------------------------------------------------------------------------
  const state = (text, trouble) => {
    byId("state").textContent = text;
    byId("state").className = trouble ? "trouble" : "";
  };

  byId("pause").addEventListener("click", () => {
    paused = !paused;
    byId("pause").setAttribute("aria-pressed", String(paused));
    byId("pause").textContent = paused ? "Go on" : "Pause";
    state(paused ? "paused" : "live");
  });
  byId("span").addEventListener("change", () => { if (samples.length) refresh(); });
  byId("earlier").addEventListener("click", () => { if (samples.length) move(until() - shown() / 2); });
  byId("later").addEventListener("click", () => { if (samples.length) move(until() + shown() / 2); });
  byId("file").addEventListener("change", draw);
  byId("save").addEventListener("click", () => save().catch((error) => state(`not saved: ${error.message}`, true)));
  addEventListener("resize", draw);
  document.addEventListener("visibilitychange", draw);

  const saved = byId("saved");
  if (saved) {
    const data = JSON.parse(saved.textContent);
    samples.push(...data.samples);
    data.tracks.forEach(([name, known]) => tracks.set(name, known));
    ({ marked, ends } = data);
    byId("span").value = data.span;
    byId("file").value = data.file;
    byId("pause").hidden = byId("save").hidden = true;
    state(`saved ${new Date(samples.at(-1)?.at_ms ?? 0).toLocaleString()}`);
    if (samples.length) refresh();
    return;
  }
  if (typeof EventSource === "undefined") {
    state("This browser has no server-sent events (EventSource), so the page cannot be live. Use another one, or see /metrics.", true);
    return;
  }
  state("connecting");
  const events = new EventSource("events" + location.search);
  events.addEventListener("open", () => { if (!paused) state("live"); });
  events.addEventListener("error", () => state("no connection: the mount has ended, or this page is one of too many", true));
  events.addEventListener("message", (event) => {
    if (paused) return;
    add(JSON.parse(event.data));
    state("live");
    refresh();
  });
})();
