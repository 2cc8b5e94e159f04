// REEF for C: several neural networks share one device, and real-time requests start at once.
//
// A program opens a device, loads networks, starts a dispatcher, opens clients and submits requests:
// reef_device_open, reef_network_load, reef_dispatcher_start, reef_client_open, reef_client_run. docs/capi.md is the
// manual.
//
// Every function that can fail answers REEF_OK or why it failed, and reef_error_message() says more. What a function
// gives is valid when it answers REEF_OK, and left alone otherwise. Handles that are null, freed or of another kind are
// refused (REEF_HANDLE). All functions may be called from any thread.
//
// Made by tools/capi_header.sh out of the sources: don't edit.

#ifndef REEF_H
#define REEF_H

#include <stddef.h>
#include <stdint.h>

// Version of the interface that a program was compiled for: compare it with `reef_version()`.
//
// The first number changes when programs must be changed; the second one when something is added.
#define REEF_VERSION 512

// A time that isn't known.
#define REEF_UNKNOWN UINT64_MAX

// Client that submits requests of one class. A handle.
typedef struct reef_client reef_client;

// An open device. A handle: compare it with NULL, and give it to functions of this header.
typedef struct reef_device reef_device;

// Scheduler of the requests of many clients on one device. A handle.
typedef struct reef_dispatcher reef_dispatcher;

// A network on a device, with memory for one request at a time. A handle.
typedef struct reef_network reef_network;

// A submitted inference. A handle.
typedef struct reef_request reef_request;

// Result of a call: `REEF_OK`, or the reason why it did nothing. Later versions may have more of
// them.
typedef int32_t reef_status;

// Scheduling class of a client: one of the two below.
typedef uint32_t reef_class;

// Options of a client. 0 means the default.
typedef struct {
    // Set it to `sizeof(reef_client_options)`.
    uint32_t struct_size;
    // Larger goes first under the scheduler `priority`.
    int32_t priority;
    // Best-effort: its part of the device's time under `fair-share`, against the weights of
    // others; 0: 1.
    uint32_t weight;
    // Best-effort: commands that can wait, a power of two up to 65536; 0: 1024. A network has one
    // or several for each layer.
    uint32_t capacity;
    // Best-effort: commands with the device at once; 0: 4. Few are quick to preempt.
    uint32_t window;
    // 0.
    uint32_t reserved;
} reef_client_options;

// Depth of a preemption: one of the three below.
typedef uint32_t reef_level;

// Facts about a device.
typedef struct {
    // Set it to `sizeof(reef_device_info)`.
    uint32_t struct_size;
    // Streaming multiprocessors, compute units, or CPU threads.
    uint32_t units;
    // Deepest level that it supports.
    reef_level level;
    // 0.
    uint32_t reserved;
} reef_device_info;

// Counters since the dispatcher was started.
typedef struct {
    // Set it to `sizeof(reef_stats)`.
    uint32_t struct_size;
    // 0.
    uint32_t reserved;
    // Preemptions of best-effort work.
    uint64_t preemptions;
    // Real-time requests that finished.
    uint64_t rt_finished;
    // Real-time kernels that were to have best-effort blocks next to them; on a GPU that caps
    // best-effort queues, the times that it did.
    uint64_t padded_launches;
    // Best-effort blocks that were planned next to real-time kernels. Some come too late, or find
    // no room.
    uint64_t padded_blocks;
    // Times that the device refused to stop or to restore best-effort work, and was asked again.
    uint64_t retries;
    // Best-effort clients whose work did not end in time. What it uses may stay on the device for
    // ever.
    uint64_t abandoned;
} reef_stats;

// Options of a network to load. 0 and NULL mean the default.
typedef struct {
    // Set it to `sizeof(reef_network_options)`.
    uint32_t struct_size;
    // Images in a request; 0: as many as the network was made for, or 1.
    uint32_t batch;
    // Rows and columns of an image; 0: as many as the network was made for.
    uint32_t input_size;
    // 0.
    uint32_t reserved;
    // Seed of made-up weights, where the network is one that is built by name and has no others.
    // 0 is a seed, too.
    uint64_t seed;
    // A .safetensors or .param file with weights for a network that is built by name, or NULL.
    const char *weights;
    // A file of `reef model calibrate`, for numbers of 8 bits between the steps, or NULL. A device
    // without kernels for these is an error.
    const char *scales;
} reef_network_options;

// Shapes of a network for images. Values are floats, and lie image by image, channel by channel,
// row by row.
typedef struct {
    // Set it to `sizeof(reef_network_info)`.
    uint32_t struct_size;
    // Images in a request.
    uint32_t batch;
    // Channels of an image.
    uint32_t channels;
    // Its rows.
    uint32_t height;
    // Its columns.
    uint32_t width;
    // 0.
    uint32_t reserved;
    // Values of the whole input.
    uint64_t inputs;
    // Values of the whole output.
    uint64_t outputs;
} reef_network_info;

// When a request was where, in nanoseconds.
typedef struct {
    // Set it to `sizeof(reef_timing)`.
    uint32_t struct_size;
    // 0.
    uint32_t reserved;
    // Time from submission until its first command could start: the preemption, if there was one.
    // `REEF_UNKNOWN` for best-effort requests.
    uint64_t delay_ns;
    // Time from then until its last command ended. `REEF_UNKNOWN` for best-effort requests.
    uint64_t device_ns;
    // Time from submission until the dispatcher noted its end; of a best-effort request, until
    // this call.
    uint64_t total_ns;
} reef_timing;

// Inputs of a network, or its outputs: one of the two below.
typedef uint32_t reef_end;

// Type of a tensor's values: one of those below, which are as wide as C's types of these names.
typedef uint32_t reef_element;

// An input or output of a network.
typedef struct {
    // Set it to `sizeof(reef_tensor_info)`.
    uint32_t struct_size;
    // Type of its values.
    reef_element element;
    // Number of its sizes.
    uint32_t rank;
    // 0.
    uint32_t reserved;
    // Bytes of all values; of the most, if each request decides a size.
    uint64_t bytes;
} reef_tensor_info;

// Starts at once, before any best-effort work.
#define REEF_REAL_TIME 1

// Takes what real-time work leaves, and loses nothing.
#define REEF_BEST_EFFORT 2

// Stops work that is not launched.
#define REEF_HOST_QUEUE 0

// Also stops work that is launched and has not started.
#define REEF_DEVICE_QUEUE 1

// Also stops work that runs.
#define REEF_ALL 2

// The inputs.
#define REEF_INPUT 1

// The outputs.
#define REEF_OUTPUT 2

// A byte that is 0 or 1.
#define REEF_BOOL 1

// `uint8_t`
#define REEF_U8 2

// `uint16_t`
#define REEF_U16 3

// `uint32_t`
#define REEF_U32 4

// `uint64_t`
#define REEF_U64 5

// `int8_t`
#define REEF_I8 6

// `int16_t`
#define REEF_I16 7

// `int32_t`
#define REEF_I32 8

// `int64_t`
#define REEF_I64 9

// IEEE 754's format of 16 bits.
#define REEF_F16 10

// `float`
#define REEF_F32 11

// `double`
#define REEF_F64 12

// The upper 16 bits of a `float`.
#define REEF_BF16 14

// It is done.
#define REEF_OK 0

// An argument can't be: a null pointer, text that isn't UTF-8, a number out of range.
#define REEF_INVALID 1

// No device, network, scheduler or library has this name.
#define REEF_NOT_FOUND 2

// It is there already.
#define REEF_EXISTS 3

// The device or this version can't do it.
#define REEF_UNSUPPORTED 4

// The device stopped answering, or a kernel of the client failed.
#define REEF_LOST 5

// The time is over; what was asked goes on.
#define REEF_TIMEOUT 6

// The device or the host is out of memory.
#define REEF_NO_MEMORY 7

// Not now: a request of the network is on its way, or a queue is full.
#define REEF_BUSY 8

// A fault of the library. It caught it, and the handle may still be freed.
#define REEF_INTERNAL 9

// The request was cancelled, or its client or dispatcher was freed.
#define REEF_CANCELLED 10

// Null, freed, a handle of another kind, or one of the process that this one was forked from.
#define REEF_HANDLE 11

// A file can't be read, or isn't what it should be.
#define REEF_FILE 12

// The vendor's driver refused a call.
#define REEF_DRIVER 13

// The operating system refused something, such as a thread.
#define REEF_SYSTEM 14

#ifdef __cplusplus
extern "C" {
#endif // __cplusplus

// Opens a client of the dispatcher: `REEF_REAL_TIME` or `REEF_BEST_EFFORT`. NULL options: the
// usual. Any thread.
//
// `options` is null or as large as its `struct_size`; `client` is null or can be written.
reef_status reef_client_open(const reef_dispatcher *dispatcher,
                             reef_class client_class,
                             const reef_client_options *options,
                             reef_client **client);

// Frees the client; NULL does nothing.
//
// Of a best-effort client, what waits ends as REEF_CANCELLED, and this call waits for what runs;
// what does not stop within ten seconds ends as REEF_LOST. Real-time requests go on. Any thread,
// also while others wait for requests.
reef_status reef_client_free(reef_client *client);

// Submits one inference of the network, on the input that was written last, and returns at once.
//
// `deadline_us`: in which time it should be finished, for the scheduler `deadline`; negative:
// none. REEF_BUSY: a request of the network is on its way, or the queue is full. Any thread; calls
// for one client wait for each other.
//
// `request` is null or can be written.
reef_status reef_client_submit(const reef_client *client,
                               const reef_network *network,
                               int64_t deadline_us,
                               reef_request **request);

// One inference of a network for images: writes the input, submits, waits, reads the output. Other
// threads' calls that work on the network's memory wait until it has ended.
//
// `timeout_us`: how long it waits, also for other threads' calls; negative: without limit.
// REEF_TIMEOUT: a real-time request is cancelled as far as the device hasn't got it, a best-effort
// one goes on; the network is busy until it has ended. Any thread.
//
// `inputs` values at `input` can be read, or it is null; `outputs` values at `output` can be
// written, or it is null.
reef_status reef_client_run(const reef_client *client,
                            const reef_network *network,
                            const float *input,
                            size_t inputs,
                            float *output,
                            size_t outputs,
                            int64_t timeout_us);

// Opens a device by its name: "cpu", "cuda:1", "cpu:0?units=4"; "auto" is the first GPU, else the
// CPU.
//
// REEF_NOT_FOUND: the library has no such backend, or the backend no such device or driver. Any
// thread.
//
// `name` is null or a string that ends with a zero byte; `device` is null or can be written.
reef_status reef_device_open(const char *name, reef_device **device);

// Frees the handle; NULL does nothing. Networks, dispatchers and clients of the device go on.
//
// Any thread; calls with the handle that have begun go on.
reef_status reef_device_free(reef_device *device);

// Facts about the device. Any thread.
//
// `info` is null or as large as its `struct_size`.
reef_status reef_device_get_info(const reef_device *device, reef_device_info *info);

// The device's name for people, cut to `size` bytes with the zero byte at its end. `needed`, if it
// isn't NULL, gets the bytes that the whole name takes with it. Any thread.
//
// `size` bytes at `name` can be written, or `size` is 0; `needed` is null or can be written.
reef_status reef_device_get_name(const reef_device *device, char *name, size_t size, size_t *needed);

// Starts a dispatcher on the device, with one of `reef_schedulers()`: "reef" unless there is a
// reason.
//
// REEF_UNSUPPORTED: the scheduler preempts more deeply than the device can. Any thread. One
// dispatcher for a device is enough; two know nothing of each other.
//
// `scheduler` is null or a string that ends with a zero byte; `dispatcher` is null or can be
// written.
reef_status reef_dispatcher_start(const reef_device *device, const char *scheduler, reef_dispatcher **dispatcher);

// Ends the dispatcher, waits for what runs, and frees the handle; NULL does nothing.
//
// Real-time requests that the device has are finished, all others end as REEF_CANCELLED; its
// clients stay handles and submit nothing more. Any thread, also while others wait for requests.
reef_status reef_dispatcher_free(reef_dispatcher *dispatcher);

// Reads the counters since the start. Any thread.
//
// `stats` is null or as large as its `struct_size`.
reef_status reef_dispatcher_get_stats(const reef_dispatcher *dispatcher, reef_stats *stats);

// Version of the library: `0xAABBCC` for AA.BB.CC. It fits a program if it is at least
// `REEF_VERSION` and has the same AA.
//
// Any thread, any time.
uint32_t reef_version(void);

// The name of a status, such as "REEF_BUSY"; "REEF_?" for one that this version doesn't have. It
// stays.
//
// Any thread, any time.
const char *reef_status_name(reef_status status);

// Text of the last call of this thread that failed, in one line of UTF-8; "" if none did.
//
// It stays until the next call of this thread that fails. Any thread, any time.
const char *reef_error_message(void);

// Names of the schedulers, joined by commas. The text stays.
//
// Any thread, any time.
const char *reef_schedulers(void);

// Names of the networks that are built by name, joined by commas. The text stays.
//
// Any thread, any time.
const char *reef_networks(void);

// Names of the backends that the library was built with, joined by commas. The text stays.
//
// Any thread, any time.
const char *reef_backends(void);

// Number of open handles, so that tests find handles that were not freed.
//
// Any thread, any time.
size_t reef_live_handles(void);

// Loads a network onto a device: one of `reef_networks()`, an .onnx file, a folder of
// `reef model import`, or a .safetensors file whose name begins with one of `reef_networks()`.
// NULL options: the usual. Sizes that an .onnx file leaves open are 1, or another that works.
//
// A network that is built by name has made-up weights unless the options name a file. Any thread.
//
// REEF_FILE: a file can't be read, or isn't what it should be. REEF_UNSUPPORTED: an .onnx file has
// something that the library does not read, or the device has no kernel for it.
//
// `what` is null or a string that ends with a zero byte; `options` is null or as large as its
// `struct_size`, and its `weights` and `scales` as `what`; `network` is null or can be written.
reef_status reef_network_load(const reef_device *device,
                              const char *what,
                              const reef_network_options *options,
                              reef_network **network);

// Makes another instance of the network: the same weights, memory of its own, so that a request of
// each can be on its way. Any thread.
//
// `instance` is null or can be written.
reef_status reef_network_new_instance(const reef_network *network, reef_network **instance);

// Frees the handle; NULL does nothing. A request that is on its way goes on. Any thread.
reef_status reef_network_free(reef_network *network);

// The shapes of a network for images. REEF_INVALID: it is one of tensors, as
// `reef_network_get_tensor` describes them. Any thread.
//
// `info` is null or as large as its `struct_size`.
reef_status reef_network_get_info(const reef_network *network, reef_network_info *info);

// Writes the input of a network for images: all of its values. REEF_BUSY: a request is on its way.
//
// Any thread; calls for one network wait for each other.
//
// `count` values at `values` can be read, or it is null.
reef_status reef_network_write_input(const reef_network *network, const float *values, size_t count);

// Reads the output of a network for images, of the last request that finished: all of its values.
// REEF_BUSY: a request is on its way.
//
// Any thread; calls for one network wait for each other.
//
// `count` values at `values` can be written, or it is null.
reef_status reef_network_read_output(const reef_network *network, float *values, size_t count);

// Waits until the request has ended, and says how: REEF_OK if it finished.
//
// `timeout_us`: how long; 0: looks and doesn't wait; negative: without limit. REEF_TIMEOUT: it
// goes on. Any thread. REEF_BUSY: it is a real-time request, and another thread waits for it
// already.
reef_status reef_request_wait(const reef_request *request, int64_t timeout_us);

// Takes back what the device hasn't got of a real-time request: that then ends as REEF_CANCELLED,
// at once or when what the device has has ended. `cancelled`, if it isn't NULL, gets 1, or 0 if
// the device has all of it or it has ended.
//
// REEF_UNSUPPORTED: best-effort requests are cancelled by `reef_client_free`. Any thread.
//
// `cancelled` is null or can be written.
reef_status reef_request_cancel(const reef_request *request, int32_t *cancelled);

// When a request that finished was where. REEF_BUSY: it has not ended; another error: how it
// ended. Any thread.
//
// `timing` is null or as large as its `struct_size`.
reef_status reef_request_get_timing(const reef_request *request, reef_timing *timing);

// Frees the handle; NULL does nothing. The request goes on, and its network is busy until it has
// ended. Any thread.
reef_status reef_request_free(reef_request *request);

// Number of the network's inputs, or of its outputs. Any thread.
//
// `count` is null or can be written.
reef_status reef_network_count_tensors(const reef_network *network, reef_end end, size_t *count);

// Element type, rank and size of an input or output, which are counted from 0. Any thread.
//
// `info` is null or as large as its `struct_size`.
reef_status reef_network_get_tensor(const reef_network *network, reef_end end, size_t index, reef_tensor_info *info);

// The name of an input or output as its file has it, cut to `size` bytes with the zero byte at its
// end. `needed`, if it isn't NULL, gets the bytes that the whole name takes with it. Any thread.
//
// `size` bytes at `name` can be written, or `size` is 0; `needed` is null or can be written.
reef_status reef_network_get_tensor_name(const reef_network *network,
                                         reef_end end,
                                         size_t index,
                                         char *name,
                                         size_t size,
                                         size_t *needed);

// The sizes of an input or output, of which there are as many as its rank. -1 is one that each
// request decides: see `reef_network_read_size`. Any thread.
//
// `count` numbers at `sizes` can be written, or it is null.
reef_status reef_network_get_tensor_shape(const reef_network *network,
                                          reef_end end,
                                          size_t index,
                                          int64_t *sizes,
                                          size_t count);

// Writes an input of the next request: all of its bytes, in row-major order. REEF_BUSY: a
// request is on its way.
//
// Any thread; calls for one network wait for each other.
//
// `bytes` bytes at `data` can be read, or it is null.
reef_status reef_network_write_tensor(const reef_network *network, size_t index, const void *data, size_t bytes);

// Reads an output of the last request that finished: all of its bytes, of which those of the sizes
// that it decided have values. REEF_BUSY: a request is on its way. REEF_INVALID: data did not end
// a loop within its bound.
//
// Any thread; calls for one network wait for each other.
//
// `bytes` bytes at `data` can be written, or it is null.
reef_status reef_network_read_tensor(const reef_network *network, size_t index, void *data, size_t bytes);

// Reads the size that the last request which finished decided for an output, in place of -1 in its
// shape. REEF_INVALID: all of its sizes are fixed.
//
// Any thread; calls for one network wait for each other.
//
// `size` is null or can be written.
reef_status reef_network_read_size(const reef_network *network, size_t index, uint64_t *size);

#ifdef __cplusplus
}  // extern "C"
#endif  // __cplusplus

#endif  /* REEF_H */
