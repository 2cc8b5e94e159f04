/* Real-time phases of a program under `reef exec`: C99, nothing to link.
 *
 * The library for unmodified programs has the functions. They are looked up when they are called, so
 * a program with this header runs without REEF as well: they return ENODEV, 0 or nothing then.
 *
 *     int phase = reef_guest_begin();
 *     if (phase == EPERM) fprintf(stderr, "%s\n", reef_guest_reason());
 *     ... launch, and wait for the work ...
 *     if (phase == 0) reef_guest_end();
 *
 * Any thread may call them. All phases of a process together make it real-time; the last end ends
 * that. A real-time program holds others also between its launches, for 20 ms at most. A child
 * process of fork() is in no phase.
 */
#ifndef REEF_GUEST_H
#define REEF_GUEST_H

#include <dlfcn.h>
#include <errno.h>
#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Returns a function of the library, or NULL without it: of the whole process, or in the driver's place. */
static inline void *reef_guest_symbol(const char *name)
{
    void *all = dlopen(NULL, RTLD_LAZY);
    void *found = all == NULL ? NULL : dlsym(all, name);
    if (all != NULL)
        dlclose(all);
    if (found == NULL) {
        void *driver = dlopen("libcuda.so.1", RTLD_LAZY | RTLD_NOLOAD);
        if (driver != NULL) {
            found = dlsym(driver, name);
            dlclose(driver);
        }
    }
    return found;
}

static inline int reef_guest_call(const char *name, int absent)
{
    int (*function)(void);
    *(void **)(&function) = reef_guest_symbol(name);
    return function == NULL ? absent : function();
}

/* Begins a phase. 0: it has begun, so end it. ENODEV: nothing to do, because this program is not
 * scheduled. EPERM: the daemon grants this user no phases. EAGAIN: the daemon does not answer. */
static inline int reef_guest_begin(void)
{
    return reef_guest_call("reef_guest_begin_phase", ENODEV);
}

/* Ends a phase: other programs go on at once, after work of a real-time one. 0, or EINVAL if none has begun. */
static inline int reef_guest_end(void)
{
    return reef_guest_call("reef_guest_end_phase", 0);
}

/* Lets others have the devices: those that this program holds, until its next launch. A best-effort
 * program that is held waits here until it is not. */
static inline void reef_guest_yield_now(void)
{
    void (*function)(void);
    *(void **)(&function) = reef_guest_symbol("reef_guest_yield");
    if (function != NULL)
        function();
}

/* 1: best-effort, 2: real-time, 0: not scheduled, or without a launch so far. */
static inline int reef_guest_class_number(void)
{
    return reef_guest_call("reef_guest_class", 0);
}

/* 1 if launches of this program wait for a real-time program now. */
static inline int reef_guest_held(void)
{
    return reef_guest_call("reef_guest_is_held", 0);
}

/* Phases that last, of all threads. */
static inline int reef_guest_phase_count(void)
{
    return reef_guest_call("reef_guest_phases", 0);
}

/* Reason for which this thread's last phase has not begun. Valid until its next phase. */
static inline const char *reef_guest_reason(void)
{
    const char *(*function)(void);
    *(void **)(&function) = reef_guest_symbol("reef_guest_why");
    return function == NULL ? "" : function();
}

#ifdef __cplusplus
}
#endif

#endif
