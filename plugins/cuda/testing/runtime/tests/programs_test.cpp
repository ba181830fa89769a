// Random programs of streams, events, kernels and copies: a race is reported if and only if two
// conflicting operations are not ordered; right programs give the serial result.
#include "double.hpp"

#include <rapidcheck.h>
#include <rapidcheck/gtest.h>

#include <cstdint>
#include <ostream>

namespace {

using namespace double_test;

constexpr int buffers = 4;

/// An operation that reads buffer `from` and writes buffer `to`, or a wait of `stream` for `other`.
struct Action {
    enum Kind { kernel, copy_between, set, wait } kind = kernel;
    int stream = 0;
    int other = 0;
    int from = 0, to = 0;
};
std::ostream& operator<<(std::ostream& out, const Action& a) {
    const char* const names[] = {"kernel", "copy", "set", "wait for stream"};
    out << "stream " << a.stream << ": " << names[a.kind] << " ";
    return a.kind == Action::wait ? out << a.other : out << a.from << " to " << a.to;
}
using Program = std::vector<Action>;
using Values = std::vector<std::uint32_t>;

bool reads(const Action& a, int buffer) {
    return (a.kind == Action::kernel && (a.from == buffer || a.to == buffer)) ||
           (a.kind == Action::copy_between && a.from == buffer);
}
bool conflict(const Action& a, const Action& b) {
    return a.to == b.to || reads(a, b.to) || reads(b, a.to);
}

/// Which earlier operations come before each, by streams and waits alone.
class Before {
public:
    explicit Before(int streams) : known_(static_cast<std::size_t>(streams)) {}
    /// The first earlier operation that conflicts and is not ordered; -1: none.
    [[nodiscard]] int race(const Action& a) const {
        for (std::size_t i = 0; i < done_.size(); ++i)
            if ((known(a.stream) >> i & 1) == 0 && conflict(done_[i], a))
                return static_cast<int>(i);
        return -1;
    }
    void add(const Action& a) {
        if (a.kind == Action::wait) {
            known(a.stream) |= known(a.other);
            return;
        }
        known(a.stream) |= std::uint64_t{1} << done_.size();
        done_.push_back(a);
    }
    [[nodiscard]] int stream_of(int operation) const {
        return done_[static_cast<std::size_t>(operation)].stream;
    }

private:
    std::uint64_t& known(int stream) { return known_[static_cast<std::size_t>(stream)]; }
    [[nodiscard]] std::uint64_t known(int stream) const {
        return known_[static_cast<std::size_t>(stream)];
    }
    std::vector<std::uint64_t> known_;
    std::vector<Action> done_{};
};

bool races(const Program& program, int streams) {
    Before before(streams);
    for (const Action& a : program) {
        if (a.kind != Action::wait && before.race(a) >= 0) return true;
        before.add(a);
    }
    return false;
}

/// A program with just the waits that make it right; one in eight operations is a wait for nothing.
rc::Gen<Program> right_programs(int streams) {
    const auto action = rc::gen::resize(
        rc::kNominalSize,
        rc::gen::build<Action>(
            rc::gen::set(&Action::kind,
                         rc::gen::element(Action::kernel, Action::kernel, Action::kernel,
                                          Action::kernel, Action::copy_between,
                                          Action::copy_between, Action::set, Action::wait)),
            rc::gen::set(&Action::stream, rc::gen::inRange(0, streams)),
            rc::gen::set(&Action::other, rc::gen::inRange(0, streams)),
            rc::gen::set(&Action::from, rc::gen::inRange(0, buffers)),
            rc::gen::set(&Action::to, rc::gen::inRange(0, buffers))));
    return rc::gen::map(
        rc::gen::resize(24, rc::gen::container<Program>(action)), [streams](Program wanted) {
            Before before(streams);
            Program program;
            for (Action a : wanted) {
                if (a.kind == Action::copy_between && a.from == a.to) a.kind = Action::set;
                while (a.kind != Action::wait && before.race(a) >= 0) {
                    const Action wait{Action::wait, a.stream, before.stream_of(before.race(a))};
                    program.push_back(wait);
                    before.add(wait);
                }
                program.push_back(a);
                before.add(a);
            }
            return program;
        });
}

Values serially(const Program& program, int times) {
    Values v(buffers, 0);
    for (int t = 0; t < times; ++t)
        for (const Action& a : program) {
            auto &to = v[static_cast<std::size_t>(a.to)],
                 from = v[static_cast<std::size_t>(a.from)];
            if (a.kind == Action::kernel) to = 3 * to + from + 1;
            if (a.kind == Action::copy_between) to = from;
            if (a.kind == Action::set) to = 0x02020202;
        }
    return v;
}

/// The program's handles on a fresh double.
class Machine {
public:
    explicit Machine(int streams) {
        for (int b = 0; b < buffers; ++b) memory_.push_back(device_memory<std::uint32_t>(1));
        for (int s = 0; s < streams; ++s) streams_.push_back(new_stream());
        for (auto* const m : memory_) ok(cudaMemsetAsync(m, 0, 4, streams_[0]));
        for (int s = 1; s < streams; ++s) wait(s, 0);
    }
    void run(const Program& program) {
        for (const Action& a : program) {
            std::uint32_t *const to = at(a.to), *const from = at(a.from);
            const cudaStream_t s = stream(a.stream);
            if (a.kind == Action::wait) wait(a.stream, a.other);
            if (a.kind == Action::copy_between) copy(to, from, 1, s);
            if (a.kind == Action::set) ok(cudaMemsetAsync(to, 2, 4, s));
            if (a.kind == Action::kernel)
                enqueue_kernel(s, "kernel", [=] {
                    report_access(from, 4, false, "kernel");
                    report_access(to, 4, true, "kernel");
                    *to = 3 * *to + *from + 1;
                });
        }
    }
    /// As one graph, launched so often.
    void run_captured(const Program& program, int times) {
        ok(cudaStreamBeginCapture(stream(0), cudaStreamCaptureModeGlobal));
        const int count = static_cast<int>(streams_.size());
        for (int s = 1; s < count; ++s) wait(s, 0);
        run(program);
        for (int s = 1; s < count; ++s) wait(0, s);
        cudaGraph_t graph{};
        cudaGraphExec_t executable{};
        ok(cudaStreamEndCapture(stream(0), &graph));
        ok(cudaGraphInstantiate(&executable, graph, 0));
        for (int t = 0; t < times; ++t) ok(cudaGraphLaunch(executable, stream(0)));
        ok(cudaGraphExecDestroy(executable));
        ok(cudaGraphDestroy(graph));
    }
    Values results() {
        ok(cudaDeviceSynchronize());
        Values v(buffers);
        for (int b = 0; b < buffers; ++b)
            ok(cudaMemcpy(&v[static_cast<std::size_t>(b)], at(b), 4, cudaMemcpyDeviceToHost));
        return v;
    }
    void release() {
        for (auto* const m : memory_) ok(cudaFree(m));
        for (const cudaStream_t s : streams_) ok(cudaStreamDestroy(s));
        expect_clean();
    }

private:
    void wait(int s, int other) {
        const cudaEvent_t e = new_event();
        ok(cudaEventRecord(e, stream(other)));
        ok(cudaStreamWaitEvent(stream(s), e, 0));
        ok(cudaEventDestroy(e));
    }
    cudaStream_t stream(int s) { return streams_[static_cast<std::size_t>(s)]; }
    std::uint32_t* at(int b) { return memory_[static_cast<std::size_t>(b)]; }
    std::vector<std::uint32_t*> memory_{};
    std::vector<cudaStream_t> streams_{};
};

constexpr StreamProgress every_progress[] = {StreamProgress::late, StreamProgress::eager,
                                             StreamProgress::random};

RuntimeOptions with(std::uint64_t seed, StreamProgress progress) {
    return {.seed = seed, .progress = progress, .check_at_exit = false};
}

TEST(Programs, RightOnesGiveTheSerialResultInEveryOrder) {
    EXPECT_TRUE(rc::check("right programs", [](std::uint64_t seed) {
        const int streams = *rc::gen::inRange(1, 5);
        const Program program = *right_programs(streams);
        RC_ASSERT(!races(program, streams));
        for (const StreamProgress progress : every_progress) {
            reset(with(seed, progress));
            Machine m(streams);
            m.run(program);
            RC_ASSERT(m.results() == serially(program, 1));
            m.release();
        }
    }));
}
TEST(Programs, RightOnesGiveTheSerialResultAsGraphs) {
    EXPECT_TRUE(rc::check("right graphs", [](std::uint64_t seed) {
        const int streams = *rc::gen::inRange(1, 5);
        const Program program = *right_programs(streams);
        for (const StreamProgress progress : every_progress) {
            reset(with(seed, progress));
            Machine m(streams);
            m.run_captured(program, 2);
            RC_ASSERT(m.results() == serially(program, 2));
            m.release();
        }
    }));
}

/// Drops one wait; a race is reported exactly where it was needed.
void drop_a_wait(bool as_graph, std::uint64_t seed, int& needed) {
    const int streams = *rc::gen::inRange(2, 5);
    Program program = *right_programs(streams);
    std::vector<std::size_t> waits;
    for (std::size_t i = 0; i < program.size(); ++i)
        if (program[i].kind == Action::wait) waits.push_back(i);
    RC_PRE(!waits.empty());
    const auto dropped = *rc::gen::elementOf(waits);
    program.erase(program.begin() + static_cast<std::ptrdiff_t>(dropped));
    const bool wrong = races(program, streams);
    needed += wrong;
    RC_CLASSIFY(wrong, "the wait was needed");
    for (const StreamProgress progress : every_progress) {
        reset(with(seed, progress));
        const std::string text = sentence_of([&] {
            Machine m(streams);
            if (as_graph) m.run_captured(program, 1);
            else m.run(program);
            const Values got = m.results();
            if (!wrong) RC_ASSERT(got == serially(program, 1));
        });
        RC_ASSERT(wrong == (text.find("race: ") == 0));
        RC_ASSERT(wrong == !text.empty());
    }
}
TEST(Programs, ADroppedWaitIsReportedExactlyWhereItWasNeeded) {
    int needed = 0;
    EXPECT_TRUE(
        rc::check("dropped waits", [&](std::uint64_t seed) { drop_a_wait(false, seed, needed); }));
    EXPECT_GT(needed, 10) << "the property says nothing otherwise";
}
TEST(Programs, ADroppedWaitInACaptureIsReportedExactlyWhereItWasNeeded) {
    int needed = 0;
    EXPECT_TRUE(rc::check("dropped waits of graphs",
                          [&](std::uint64_t seed) { drop_a_wait(true, seed, needed); }));
    EXPECT_GT(needed, 10) << "the property says nothing otherwise";
}

}  // namespace
