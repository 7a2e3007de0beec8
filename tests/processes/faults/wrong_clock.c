/* Shifts the clock of a process by NOTIFY_CLOCK_SHIFT seconds: preloaded, it stands before the C library's own function.
   The clocks that only measure, and the database's own one (SQLite asks gettimeofday), stay right. */
#define _GNU_SOURCE
#include <stdlib.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

int clock_gettime(clockid_t clock, struct timespec *time) {
    int result = (int)syscall(SYS_clock_gettime, clock, time);
    const char *shift = getenv("NOTIFY_CLOCK_SHIFT");
    if (result == 0 && clock == CLOCK_REALTIME && shift) {
        time->tv_sec += atoi(shift);
    }
    return result;
}
