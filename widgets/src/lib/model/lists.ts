// Lists by key.

export function addTo<K, V>(lists: Map<K, V[]>, key: K, item: V): void {
  const held = lists.get(key);
  if (held) held.push(item);
  else lists.set(key, [item]);
}
