// dom.js -- elements without markup: everything that is shown is set as text, so no name, whatever is in
// it, can become anything but itself.

/** An element with properties, attributes (those with a dash, and a few others) and children. */
export function el(tag, properties = {}, ...children) {
    const element = document.createElement(tag);
    for (const [name, value] of Object.entries(properties)) {
        if (value === undefined || value === null || value === false) continue;
        if (name === 'class') element.className = value;
        else if (name.includes('-') || name === 'for' || name === 'role' || name === 'list') element.setAttribute(name, value);
        else element[name] = value;
    }
    element.append(...children.filter((child) => child !== null && child !== undefined));
    return element;
}

/** Sets text only where it differs: screen readers and selections are not disturbed for nothing. */
export function setText(element, text) {
    if (element.textContent !== text) element.textContent = text;
}

export function show(element, visible) {
    if (element.hidden === visible) element.hidden = !visible;
}

/** Fills a <select> and keeps what was chosen, if it is still there. */
export function setOptions(select, options, chosen = select.value) {
    const same = select.options.length === options.length &&
        options.every(({ value, label }, i) => select.options[i].value === value && select.options[i].text === label);
    if (!same) select.replaceChildren(...options.map(({ value, label }) => el('option', { value, textContent: label })));
    if (options.some(({ value }) => value === chosen)) select.value = chosen;
}

let ids = 0;

/** A label and its control, as one block. */
export function field(text, control) {
    control.id ||= `field-${++ids}`;
    return el('div', { class: 'field' }, el('label', { for: control.id, textContent: text }), control);
}

/** A card with a heading; what it holds goes behind. */
export function card(title, { wide = false, note } = {}, ...children) {
    const id = `card-${++ids}`;
    return el('section', { class: wide ? 'card wide' : 'card', 'aria-labelledby': id },
        el('div', { class: 'card-head' }, el('h2', { id, textContent: title }), note ?? null), ...children);
}

/** What keeps a card from being right, said in it; without an ApiError, nothing: the stream tells who is away. */
export function showProblem(section, error) {
    const said = section.querySelector(':scope > .problem');
    if (!error?.status) {
        if (!error) said?.remove();
        return;
    }
    const text = `This may be out of date: ${error.message}`;
    if (said) setText(said, text);
    else section.querySelector('.card-head').after(el('p', { class: 'error problem', textContent: text }));
}

/** Words for when there is nothing to show, with a command to change that, which can be copied. */
export function emptyState(text, command) {
    const box = el('div', { class: 'empty' }, el('p', { textContent: text }));
    if (!command) return box;
    const copy = el('button', { type: 'button', class: 'quiet', textContent: 'Copy' });
    copy.addEventListener('click', async () => {
        await navigator.clipboard?.writeText(command);
        copy.textContent = 'Copied';
        setTimeout(() => (copy.textContent = 'Copy'), 1500);
    });
    box.append(el('div', { class: 'command' }, el('pre', {}, el('code', { textContent: command })), copy));
    return box;
}
