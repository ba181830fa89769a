// Marks of messages: what is done, what is oldest, and events of graphs.
#include <gx/nccl/message_marks.hpp>

#include <chrono>

#include <gtest/gtest.h>

#include <gx/cuda/step_graphs.hpp>

#include "nccl_world.hpp"

namespace {

using namespace gx;
using cuda_testing::enqueue_when;
using cuda_testing::expect_clean;
using cuda_testing::StreamProgress;
using nccl_tests::every_progress;
using nccl_tests::start;

TEST(MessageMarks, TellWorkBeforeMessagesFromMessages) {
    for (const StreamProgress progress : every_progress) {
        start(progress, 1);
        {
            cuda::DeviceContext gpu(0);
            cuda::Queue queue(gpu, "communication");
            nccl::MessageMarks marks(queue);
            EXPECT_FALSE(marks.oldest());
            bool worked = false, sent = false;
            enqueue_when(queue.stream(), "work", [&] { return worked; }, [] {});
            marks.begin({"all-reduce", 4});
            enqueue_when(queue.stream(), "messages", [&] { return sent; }, [] {});
            marks.queued();
            marks.poll();
            EXPECT_TRUE(marks.works_before_messages());
            EXPECT_EQ(marks.stuck().count(), 0) << "no message has begun";
            worked = true;
            while (marks.works_before_messages()) marks.poll();
            ASSERT_TRUE(marks.oldest());
            EXPECT_EQ(marks.oldest()->step, 4);
            while (marks.stuck().count() == 0) {
            }
            sent = true;
            while (marks.oldest()) marks.poll();
            EXPECT_EQ(marks.stuck().count(), 0) << "all messages are done";
        }
        expect_clean();
    }
}

/// The last group is marked as soon as there is room for a mark behind it.
TEST(MessageMarks, KeepTheLastMessagesOfAFullRing) {
    for (const StreamProgress progress : every_progress) {
        start(progress, 1);
        {
            cuda::DeviceContext gpu(0);
            cuda::Queue queue(gpu, "communication");
            nccl::MessageMarks marks(queue, nccl::steady_now, 2);
            bool sent[]{false, false};
            for (int step : {0, 1}) {
                marks.begin({"all-reduce", step});
                enqueue_when(queue.stream(), "messages", [&, step] { return sent[step]; }, [] {});
                marks.queued();
            }
            EXPECT_EQ(marks.recorded(), 2u);
            sent[0] = true;
            while (marks.oldest() && marks.oldest()->step == 0) marks.poll();
            ASSERT_TRUE(marks.oldest());
            EXPECT_EQ(marks.oldest()->step, 1);
            sent[1] = true;
            while (marks.oldest()) marks.poll();
        }
        expect_clean();
    }
}

/// Two graphs, three times, with work of the last ones under way or not.
TEST(MessageMarks, KeepEventsOfGraphsUntilTheyAreReached) {
    for (const StreamProgress progress : every_progress)
        for (const bool waits : {false, true}) {
            start(progress, 1);
            {
                cuda::DeviceContext gpu(0);
                cuda::Queue queue(gpu, "compute"), messages(gpu, "communication");
                nccl::MessageMarks marks(messages);
                cuda::StepGraphs graphs;
                for (int phase = 0; phase < 3; ++phase) {
                    for (int step = 0; step < 6; ++step)
                        graphs.run(std::uint64_t(step % 2), queue, messages, [&] {
                            marks.begin({"all-reduce", step});
                            marks.queued();
                            return true;
                        });
                    EXPECT_LE(marks.graphs(), waits ? 2u : 6u);
                    EXPECT_GE(marks.graphs(), 2u);
                    graphs.clear();
                    if (waits) (void)queue.wait(queue.record());
                }
                EXPECT_TRUE(queue.wait(queue.record()).complete());
                marks.poll();
                EXPECT_FALSE(marks.oldest());
            }
            expect_clean();
        }
}

/// Where a place of the ring still holds an event of a graph, and its mark was reached long ago.
TEST(MessageMarks, DropAGraphWhoseMarksAreAllReached) {
    for (const StreamProgress progress : every_progress) {
        start(progress, 1);
        {
            cuda::DeviceContext gpu(0);
            cuda::Queue queue(gpu, "compute"), messages(gpu, "communication");
            nccl::MessageMarks marks(messages, nccl::steady_now, 4);
            cuda::StepGraphs graphs;
            const auto step = [&](std::uint64_t key) {
                graphs.run(key, queue, messages, [&] {
                    marks.begin({"all-reduce", 0});
                    marks.queued();
                    return true;
                });
                EXPECT_TRUE(messages.wait(messages.record()).complete());
                marks.poll();
                EXPECT_FALSE(marks.oldest());
            };
            for (int i = 0; i < 4; ++i) step(1);
            EXPECT_EQ(marks.graphs(), 1u);
            graphs.clear();
            for (int i = 0; i < 2; ++i) step(2);  // as ever, and as a graph, which drops the other
            EXPECT_EQ(marks.graphs(), 1u);
        }
        expect_clean();
    }
}

}  // namespace
