// format.js -- numbers and times for people. Counts are 64-bit and arrive as strings or numbers; they stay
// strings or BigInt here, and become a Number only where a rounded one is wanted.

/** Groups the digits of an integer, given as a string, BigInt or safe number, without rounding it. */
export function grouped(value) {
    const text = String(value);
    const sign = text.startsWith('-') ? '\u2212' : '';
    return sign + text.replace(/^-/, '').replace(/\B(?=(\d{3})+$)/g, '\u202f');
}

/** `1 file`, `2 files`. */
export function counted(value, noun) {
    return `${grouped(value)} ${noun}${String(value) === '1' ? '' : 's'}`;
}

/** A number of at most about four digits: 950, 12.3k, 4.5M. */
export function short(value) {
    const size = Math.abs(value);
    if (size < 1000) return size < 10 && !Number.isInteger(value) ? value.toFixed(1) : String(Math.round(value));
    const units = ['k', 'M', 'G', 'T', 'P', 'E'];
    let scaled = value / 1000;
    let unit = 0;
    while (Math.abs(scaled) >= 999.5 && unit < units.length - 1) {
        scaled /= 1000;
        unit++;
    }
    return `${Math.abs(scaled) < 99.95 ? scaled.toFixed(1) : Math.round(scaled)}${units[unit]}`;
}

export function bytes(value) {
    const units = ['B', 'KiB', 'MiB', 'GiB', 'TiB', 'PiB'];
    let size = Number(value);
    let unit = 0;
    while (size >= 1024 && unit < units.length - 1) {
        size /= 1024;
        unit++;
    }
    return `${unit && size < 100 ? size.toFixed(1) : Math.round(size)} ${units[unit]}`;
}

/** Seconds as 12 µs, 3.4 ms, 1.2 s; none as a dash. */
export function latency(seconds) {
    if (seconds === null) return '\u2013';
    if (seconds < 0.001) return `${Math.round(seconds * 1e6)} \u00b5s`;
    if (seconds < 1) return `${(seconds * 1e3).toFixed(seconds < 0.01 ? 1 : 0)} ms`;
    return `${seconds.toFixed(1)} s`;
}

/** A length of time by its one or two largest units: 45 s, 5 min, 1 h 20 min, 3 d. */
export function duration(seconds) {
    if (seconds === 0) return 'all time';
    const units = [['d', 86400], ['h', 3600], ['min', 60], ['s', 1]];
    const first = units.findIndex(([, size]) => seconds >= size);
    if (first < 0) return 'under 1 s';
    const [name, size] = units[first];
    const whole = Math.floor(seconds / size);
    const next = units[first + 1];
    const rest = next ? Math.floor((seconds - whole * size) / next[1]) : 0;
    return rest ? `${whole} ${name} ${rest} ${next[0]}` : `${whole} ${name}`;
}

const format = (options) => new Intl.DateTimeFormat(undefined, { hourCycle: 'h23', ...options });
const minutes = format({ hour: '2-digit', minute: '2-digit' });
const clock = format({ hour: '2-digit', minute: '2-digit', second: '2-digit' });
const day = format({ month: 'short', day: 'numeric' });
const dateClock = format({ month: 'short', day: 'numeric', hour: '2-digit', minute: '2-digit', second: '2-digit' });

/** A moment in the reader's zone, with the date unless it is today. */
export function moment(time) {
    const date = new Date(time);
    return (date.toDateString() === new Date().toDateString() ? clock : dateClock).format(date);
}

/** Labels of a time axis, in seconds: clock times, and the day where it changes. */
export function axisTimes(times, step) {
    let last = '';
    return times.map((time) => {
        const date = new Date(time * 1000);
        const today = day.format(date);
        const first = today !== last && last !== '';
        last = today;
        if (step >= 86400 || first) return today;
        return (step < 60 ? clock : minutes).format(date);
    });
}
