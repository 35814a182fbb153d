// The style sheet goes into a document once, however many explorers it shows.

declare const IRSCOPE_STYLES: string;
declare const IRSCOPE_DIGEST: string;

export function stylesOnce(document: Document): void {
  const holder = document.documentElement;
  if (holder.dataset.irscopeStyles === IRSCOPE_DIGEST) return;
  holder.dataset.irscopeStyles = IRSCOPE_DIGEST;
  const sheet = new CSSStyleSheet();
  sheet.replaceSync(IRSCOPE_STYLES);
  document.adoptedStyleSheets = [...document.adoptedStyleSheets, sheet];
}
