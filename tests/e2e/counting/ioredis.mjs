// Counting with ioredis: what hiredis.c does. The same program runs against Redis and against tally.
import Redis from 'ioredis';

const { REDIS_HOST: host, REDIS_PORT: port, REDIS_USER: username, REDIS_PASS: password } = process.env;

async function connected() {
    const client = new Redis({ host, port: Number(port), username, password });
    console.log('auth', (await client.ping()) === 'PONG' ? 'OK' : '?');
    return client;
}

async function isAllowed(client) {
    const count = await client.incr('rate:alice');
    if (count === 1) await client.expire('rate:alice', 60);
    return count <= 3;
}

let client = await connected();
for (let i = 0; i < 3; i++) await client.incr('page:home');
console.log('page', await client.get('page:home'));
let allowed = 0;
for (let i = 0; i < 5; i++) allowed += await isAllowed(client);
const left = await client.ttl('rate:alice');
console.log('allowed', allowed, 'of 5,', left > 50 && left <= 60 ? 'for a minute' : 'not for a minute');
const last = await client.incrby('ids', 100);
console.log('ids', last - 99, 'to', last);
const piped = await client.pipeline(Array.from({ length: 50 }, () => ['incr', 'piped'])).exec();
console.log('piped', piped.at(-1)[1]);
console.log('multi', ...(await client.multi().incr('a').incrby('b', 5).get('a').exec()).map(([, reply]) => reply));
client.disconnect();
client = await connected();
console.log('again', await client.get('page:home'));
await client.quit();
