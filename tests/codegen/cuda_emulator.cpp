// What plays the threads of a block: fibers that a scheduler resumes until all wait at the same barrier.
#include <setjmp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <ucontext.h>
struct Index { unsigned x, y, z; };
extern "C" { Index threadIdx, blockIdx, gridDim; unsigned char emulator_slots[1024][8]; }
enum { ALIVE, AT_WARP, AT_BLOCK, DONE };
struct Fiber { jmp_buf here; char* stack; int state; bool fresh; };
static Fiber fibers[1024];
static jmp_buf scheduler;
static ucontext_t first, unused;
static int current, threads;
static void (*body)(void**);
static void** arguments;
static void to_scheduler() { if (!_setjmp(fibers[current].here)) _longjmp(scheduler, 1); }
static void start() { body(arguments); fibers[current].state = DONE; _longjmp(scheduler, 1); }
static void resume(int number) {
  current = number; threadIdx.x = number;
  Fiber& f = fibers[number];
  if (_setjmp(scheduler)) return;
  if (!f.fresh) _longjmp(f.here, 1);
  f.fresh = false;
  getcontext(&first);
  first.uc_stack.ss_sp = f.stack; first.uc_stack.ss_size = 1 << 16; first.uc_link = 0;
  makecontext(&first, start, 0);
  swapcontext(&unused, &first);
}
extern "C" void __syncthreads() { fibers[current].state = AT_BLOCK; to_scheduler(); }
extern "C" void emulator_warp() { fibers[current].state = AT_WARP; to_scheduler(); }
extern "C" int emulator_thread() { return current; }
static int all_at(int from, int to, int state) {
  int there = 0, done = 0;
  for (int i = from; i < to; i++) { there += fibers[i].state == state; done += fibers[i].state == DONE; }
  return there == to - from ? 1 : there && there + done == to - from ? -1 : 0;
}
extern "C" int emulator_launch(void (*kernel)(void**), void** args, unsigned start, unsigned gx, unsigned gy, unsigned block) {
  body = kernel; arguments = args; threads = block; gridDim.x = gx; gridDim.y = gy;
  for (unsigned i = 0; i < block; i++) if (!fibers[i].stack) fibers[i].stack = (char*)malloc(1 << 16);
  for (blockIdx.y = 0; blockIdx.y < gy; blockIdx.y++) for (blockIdx.x = start; blockIdx.x < gx; blockIdx.x++) {
    for (int i = 0; i < threads; i++) { fibers[i].state = ALIVE; fibers[i].fresh = true; }
    for (;;) {
      bool ran = false;
      for (int i = 0; i < threads; i++) if (fibers[i].state == ALIVE) { resume(i); ran = true; }
      for (int w = 0; w < threads; w += 32) {
        int end = w + 32 < threads ? w + 32 : threads, there = all_at(w, end, AT_WARP);
        if (there < 0) return 1;
        if (there) for (int i = w; i < end; i++) { fibers[i].state = ALIVE; ran = true; }
      }
      int there = all_at(0, threads, AT_BLOCK);
      if (there < 0) return 2;
      if (there) for (int i = 0; i < threads; i++) { fibers[i].state = ALIVE; ran = true; }
      if (!ran) break;
    }
    for (int i = 0; i < threads; i++) if (fibers[i].state != DONE) return 3;
  }
  return 0;
}
