// Operation, streams, events and graphs: what the double keeps behind the runtime's handles.
#pragma once

#include <cstddef>     // byte
#include <cstdint>     // uint64_t
#include <deque>       // queues
#include <functional>  // work
#include <memory>      // shared_ptr
#include <optional>    // the last record
#include <string>      // names
#include <thread>      // captures
#include <vector>      // nodes

#include <cuda_runtime_api.h>  // the handles

namespace gx::cuda_testing {

/// The point of a stream behind its `sequence`-th operation, counted from 1.
struct Point {
    CUstream_st* stream = nullptr;
    std::uint64_t sequence = 0;
};

struct Use {
    const std::byte* begin = nullptr;
    std::size_t bytes = 0;
    bool writes = false;

    [[nodiscard]] bool overlaps(const Use& other) const {
        return begin < other.begin + other.bytes && other.begin < begin + bytes;
    }
};

/// A unit of work of a stream; it runs whole.
struct Operation {
    enum class Kind : unsigned char { order, transfer, kernel, host_function };
    std::string name{};
    Kind kind = Kind::order;
    std::vector<Use> uses{};                 ///< that are known before it runs
    std::function<void()> run{};             ///< may be empty
    std::function<bool()> ready{};           ///< empty: always
    std::vector<Point> waits{};              ///< other streams' points that it waits for
    std::function<std::string()> awaited{};  ///< what `ready` waits for, for sentences
    const void* owner = nullptr;    ///< a handle of another library, which graphs must not outlive
    CUevent_st* records = nullptr;  ///< of a graph: the event that each launch records here
};

/// An operation of a graph. Operations of one branch follow each other.
struct Node {
    Operation operation{};
    int branch = 0;
    std::vector<int> after{};  ///< nodes that it waits for
};

/// A capture from cudaStreamBeginCapture to cudaStreamEndCapture.
struct Capture {
    struct Branch {
        CUstream_st* stream = nullptr;
        std::vector<int> tail{};  ///< nodes that the next one waits for
    };
    int number = 0;
    cudaStreamCaptureMode mode = cudaStreamCaptureModeGlobal;
    std::thread::id thread{};
    std::vector<Branch> branches{};  ///< the first is the stream in which it began
    std::vector<Node> nodes{};
    bool open = true;
};

struct Recorded {
    Point point{};
    double time_ms = 0;  ///< once it is reached
};

}  // namespace gx::cuda_testing

struct CUstream_st {
    int device = 0;
    int actor = 0;  ///< of the RaceDetector
    std::string name{};
    int priority = 0;
    bool blocking = false;  ///< waits for the default stream, and the default stream for it
    bool is_default = false;
    bool is_branch = false;  ///< of a graph: no handle of the program
    std::deque<gx::cuda_testing::Operation> queue{};
    std::uint64_t queued = 0, done = 0;
    std::string ended_by{};  ///< the call that destroyed it; "" while it lives
    bool is_over = false;    ///< and the default stream waits for all that was queued
    std::shared_ptr<gx::cuda_testing::Capture> capture{};
    std::string last_name{};  ///< of what was queued last
    std::byte probe{};        ///< each operation writes it, for Runtime::host_knows
};

struct CUevent_st {
    int device = 0;
    std::string name{};
    bool timing = true;
    std::shared_ptr<gx::cuda_testing::Recorded> last{};    ///< outside of captures, or by a launch
    std::shared_ptr<gx::cuda_testing::Capture> capture{};  ///< of the last record, if in one
    std::vector<int> captured{};                           ///< nodes before that record
    std::string ended_by{};
};

struct CUgraph_st {
    std::string name{};
    int device = 0;
    std::vector<int> branch_devices{};
    std::shared_ptr<const std::vector<gx::cuda_testing::Node>> nodes{};
    std::string ended_by{};
};

struct CUgraphExec_st {
    std::string name{};
    int device = 0;
    std::shared_ptr<const std::vector<gx::cuda_testing::Node>> nodes{};
    std::vector<int> branch_devices{};
    std::vector<CUstream_st*> lanes{};  ///< of branches that had one
    gx::cuda_testing::Point last{};     ///< the end of the last launch
    std::string ended_by{};
};
