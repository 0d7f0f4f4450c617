// Numbers and times as people read them.

const units = [
    [1e9, "s"],
    [1e6, "ms"],
    [1e3, "µs"],
    [1, "ns"],
];

/** A length of time in ns, in three digits. */
function length(ns) {
    if (ns === 0) return "0";
    if (ns >= 120e9) return `${Math.floor(ns / 60e9)} min ${Math.round(ns / 1e9) % 60} s`;
    const [unit, name] = units.find(([unit]) => ns >= unit) || [1, "ns"];
    const value = ns / unit;
    const digits = value >= 100 || unit === 1 ? 0 : value >= 10 ? 1 : 2;
    return `${value.toFixed(digits)} ${name}`;
}

/** A number with thin spaces between thousands. */
function number(value) {
    return String(value).replace(/\B(?=(\d{3})+(?!\d))/g, "\u202f");
}

/** A size in bytes. */
function size(bytes) {
    const names = ["B", "KiB", "MiB", "GiB", "TiB"];
    let at = 0;
    while (bytes >= 1024 && at < names.length - 1) {
        bytes /= 1024;
        at += 1;
    }
    return `${at === 0 ? bytes : bytes.toFixed(1)} ${names[at]}`;
}

/** A part, in per cent. */
function percent(part) {
    return `${(100 * part).toFixed(part >= 0.0995 ? 0 : 1)} %`;
}

/** Time of day of `ns` from the window's begin on, with so many digits after the seconds. */
function timeOfDay(ns, digits) {
    const day = 86400e9;
    // A double holds all ns of a year.
    const step = 10 ** (9 - digits);
    const at = (((Math.floor((data.about.day + ns) / step) * step) % day) + day) % day;
    const two = (value) => String(value).padStart(2, "0");
    const seconds = Math.floor(at / 1e9);
    const parts = [Math.floor(seconds / 3600), Math.floor(seconds / 60) % 60, seconds % 60];
    const text = parts.map(two).join(":");
    if (digits === 0) return text;
    return `${text}.${String(Math.round(at % 1e9))
        .padStart(9, "0")
        .slice(0, digits)}`;
}

/** A new element: its class, and its text or children. Texts never become markup. */
function element(name, className, ...children) {
    const made = document.createElement(name);
    if (className) made.className = className;
    made.append(...children);
    return made;
}

const byId = (id) => document.getElementById(id);

/** A colour of the style, by its name. */
const colour = (name) =>
    getComputedStyle(document.documentElement).getPropertyValue(`--${name}`).trim();
