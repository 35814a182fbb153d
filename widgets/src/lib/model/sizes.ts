// Sizes in words.

export function bytes(count: number): string {
  let size = count;
  for (const unit of ["B", "kB", "MB", "GB"]) {
    if (size < 1000) return `${unit === "B" || size >= 100 ? size.toFixed(0) : Number(size.toPrecision(2))} ${unit}`;
    size /= 1000;
  }
  return `${Number(size.toPrecision(3))} TB`;
}

/** Numbers in six digits, where those that differ still do. */
export function shortNumbers(texts: readonly string[]): string[] {
  const cut = texts.map((text) => (/^-?\d+\.\d{7,}(e-?\d+)?$/u.test(text) ? String(Number(Number(text).toPrecision(6))) : text));
  return texts.map((text, k) => (cut.some((other, at) => other === cut[k] && texts[at] !== text) ? text : cut[k]));
}
