// network.mjs -- a network namespace with one wire to this machine, which can be cut.
//
// A cut wire swallows what is sent, as a dead switch does: nobody is told, connections stay as they were. It needs
// root; without, `why` says what the kernel said, and whoever wanted it does without.

import { command } from '../../bench/peers.mjs';

let made = 0;

const ip = (...args) => command('ip', args, { seconds: 10 });

export async function makeNetwork() {
    const number = process.pid % 5000;
    const name = `tally-${process.pid}-${++made}`;
    const [near, far] = [`tl${number}n${made}`, `tl${number}f${made}`];
    const subnet = `10.${200 + (number >> 8)}.${number & 255}`;
    const [nearAddress, address] = [`${subnet}.${made * 4 + 1}`, `${subnet}.${made * 4 + 2}`];
    const remove = () => ip('netns', 'delete', name); // its end of the wire goes with it, and so the other one
    try {
        await ip('netns', 'add', name);
    } catch (error) {
        return { why: error.message };
    }
    try {
        await ip('link', 'add', near, 'type', 'veth', 'peer', 'name', far, 'netns', name);
        await ip('addr', 'add', `${nearAddress}/30`, 'dev', near);
        await ip('link', 'set', near, 'up');
        await ip('-n', name, 'addr', 'add', `${address}/30`, 'dev', far);
        await ip('-n', name, 'link', 'set', far, 'up');
        await ip('-n', name, 'link', 'set', 'lo', 'up');
    } catch (error) {
        await remove();
        return { why: error.message };
    }
    return {
        name,
        address,
        range: `${subnet}.0/24`,
        cut: () => ip('-n', name, 'link', 'set', far, 'down'),
        heal: () => ip('-n', name, 'link', 'set', far, 'up'),
        remove,
    };
}
