// Prints shards.json: what JavaScript makes of each name.  node record.mjs > shards.json
const NAMES = [
  "", "a", "0", "7", "42", "1000000", "00000042", "room-17", "polygenelubricants",
  "3f2b8c1e-9d47-4a6b-8e05-1c2d3e4f5a6b", "東京会議室3", "さくら", "é", "e\u0301", "😀", "room-😀-👩‍👩‍👧", "𠮷野家",
  "\ud83d", "\ude00", "x\ud83dy", "\ude00\ud83d", "\u0000", "\uffff", "a".repeat(1000),
];
const SHARDS = [1, 2, 8, 64, 65, 128, 1000];

function hash31(name) {
  let h = 0;
  for (let i = 0; i < name.length; i++) h = (h * 31 + name.charCodeAt(i)) | 0;
  return h;
}

function finalised(h) {
  h ^= h >>> 16;
  h = Math.imul(h, 0x85ebca6b);
  h ^= h >>> 13;
  h = Math.imul(h, 0xc2b2ae35);
  return (h ^ (h >>> 16)) >>> 0;
}

function mixed(name) {
  let h = 0x811c9dc5;
  for (const byte of new TextEncoder().encode(name)) h = Math.imul(h ^ byte, 0x01000193);
  return finalised(h);
}

function rendezvous(name, shards) {
  const own = mixed(name);
  let best = 0, most = -1;
  for (let shard = 0; shard < shards; shard++) {
    const weight = finalised(own ^ Math.imul(shard + 1, 0x9e3779b1));
    if (weight > most) [best, most] = [shard, weight];
  }
  return best;
}

const rows = NAMES.map((name) => JSON.stringify({
  name,
  hash31: hash31(name),
  mixed: mixed(name),
  shards: Object.fromEntries(
    SHARDS.map((n) => [n, [Math.abs(hash31(name)) % n, mixed(name) % n, rendezvous(name, n)]]),
  ),
}));
console.log(`[\n${rows.join(",\n")}\n]`);
