// Sizes in words.

export function bytes(count: number): string {
  let size = count;
  for (const unit of ["B", "kB", "MB", "GB"]) {
    if (size < 1000) return `${unit === "B" || size >= 100 ? size.toFixed(0) : Number(size.toPrecision(2))} ${unit}`;
    size /= 1000;
  }
  return `${Number(size.toPrecision(3))} TB`;
}
