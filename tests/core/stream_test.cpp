#include <gx/core/stream.hpp>  // first, so the header is seen to stand alone

#include <gtest/gtest.h>

#include <vector>

namespace {

static_assert(gx::Stream<gx::archetype::Stream>);
static_assert(!gx::Stream<int>);
struct NoWait {
    gx::Event enqueue(gx::Task);
};
static_assert(!gx::Stream<NoWait>);
struct NoEvent {
    void enqueue(gx::Task);
    void wait(gx::Event);
};
static_assert(!gx::Stream<NoEvent>, "nothing could be waited for");

// The laziest stream: nothing runs until somebody waits.
class Lazy {
public:
    gx::Event enqueue(gx::Task task) {
        tasks_.push_back(task);
        return {tasks_.size()};
    }
    void wait(gx::Event e) {
        for (; done_ < e.sequence; ++done_) {
            const gx::Task& task = tasks_[done_];
            task.run(task.context, task.argument);
        }
    }

private:
    std::vector<gx::Task> tasks_;
    std::uint64_t done_ = 0;
};
static_assert(gx::Stream<Lazy>);

TEST(Stream, ATaskIsAFunctionAndWhatItWorksOn) {
    std::vector<std::uint64_t> ran;
    const auto note = [](void* context, std::uint64_t argument) {
        static_cast<std::vector<std::uint64_t>*>(context)->push_back(argument);
    };
    Lazy stream;
    const gx::Event first = stream.enqueue({note, &ran, 7});
    const gx::Event second = stream.enqueue({note, &ran, 8});
    stream.wait(first);
    EXPECT_EQ(ran, (std::vector<std::uint64_t>{7}));
    stream.wait(second);
    stream.wait(first);
    EXPECT_EQ(ran, (std::vector<std::uint64_t>{7, 8}));
}

}  // namespace
