#include <gx/loader/prefetch.hpp>

#include <gx/loader/synthetic.hpp>

#include <atomic>
#include <cstdio>  // fputs
#include <memory>
#include <thread>  // yield

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <support/counted_new.hpp>

namespace {
std::atomic<int> allocations{0};  // of both threads
}  // namespace
void testing_support::note_allocation(std::size_t, const void*) noexcept { ++allocations; }

namespace {

using namespace gx;
using testing::ElementsAreArray;

// ---- What the type promises -----------------------------------------------------------------
static_assert(Loader<Prefetched<InMemory<PadCrop<4>, Flip>>>);
static_assert(Loader<Prefetched<Prefetched<SyntheticLoader>>>);
static_assert(std::constructible_from<Prefetched<InMemory<>>, const Dataset&, LoaderOptions>);

const Dataset& images() {
    static const Dataset data = synthetic({.shape = {1, 8, 8}, .train_count = 100}).train;
    return data;
}

// ---- The same bits as without ---------------------------------------------------------------
template <class L>
void expect_same_epoch(auto& plain, L& ahead, int epoch, std::int64_t done = 0) {
    plain.begin_epoch(epoch, done);
    ahead.begin_epoch(epoch, done);
    ASSERT_EQ(plain.steps_per_epoch(), ahead.steps_per_epoch());
    ASSERT_EQ(plain.steps_after(done), ahead.steps_after(done));
    RankBatch last_plain{}, last_ahead{};
    for (std::int64_t i = 0; i < plain.steps_after(done); ++i) {
        const RankBatch a = plain.next(), b = ahead.next();
        ASSERT_EQ(a.global_count, b.global_count);
        ASSERT_EQ(a.batch.draw, b.batch.draw);
        ASSERT_EQ(a.batch.count, b.batch.count);
        ASSERT_THAT(b.batch.images, ElementsAreArray(a.batch.images));
        ASSERT_THAT(b.batch.labels, ElementsAreArray(a.batch.labels));
        if (i > 0) {  // the batch before is still there
            ASSERT_THAT(last_ahead.batch.images, ElementsAreArray(last_plain.batch.images));
        }
        last_plain = a;
        last_ahead = b;
    }
}
TEST(Prefetched, GivesTheSameBits) {
    using Plain = InMemory<PadCrop<2>, Flip>;
    const LoaderOptions o{.batch = 7, .ranks = 2, .rank = 1, .seed = 3};
    Plain plain(images(), o);
    Prefetched<Plain> two(images(), o);
    Prefetched<Plain, 1> one(images(), o);
    Prefetched<Plain, 9> more_than_an_epoch(images(), o);
    for (const int epoch : {0, 1, 5, 2}) {
        expect_same_epoch(plain, two, epoch);
        expect_same_epoch(plain, one, epoch);
        expect_same_epoch(plain, more_than_an_epoch, epoch);
    }
    EXPECT_EQ(two.shape(), plain.shape());
    EXPECT_EQ(two.classes(), 10);
    EXPECT_EQ(two.images_per_epoch(), 100);
}
RC_GTEST_PROP(Prefetched, GivesTheSameBitsAfterLeavingEpochsEarly, ()) {
    const LoaderOptions o{.batch = 9, .seed = *rc::gen::arbitrary<std::uint64_t>()};
    InMemory<Flip> plain(images(), o);
    Prefetched<InMemory<Flip>> ahead(images(), o);
    for (int round = 0; round < 5; ++round) {
        const int epoch = *rc::gen::inRange(0, 4);
        const auto steps = *rc::gen::inRange<std::int64_t>(0, plain.steps_per_epoch() + 1);
        plain.begin_epoch(epoch);
        ahead.begin_epoch(epoch);
        for (std::int64_t i = 0; i < steps; ++i) {
            const RankBatch a = plain.next(), b = ahead.next();
            RC_ASSERT(std::ranges::equal(a.batch.images, b.batch.images));
            RC_ASSERT(a.batch.draw == b.batch.draw);
        }
    }
}
TEST(Prefetched, AllocatesNothingAfterTheFirstEpoch) {
    const auto allocated_in_later_epochs = [](auto& loader) {
        int before = 0;
        for (const int e : {0, 1, 2}) {
            if (e == 1) before = allocations.load();
            loader.begin_epoch(e);
            for (std::int64_t i = 0; i < loader.steps_per_epoch(); ++i) (void)loader.next();
        }
        return allocations.load() - before;
    };
    InMemory<PadCrop<2>, Flip> plain(images(), {.batch = 7});
    Prefetched<InMemory<PadCrop<2>, Flip>> ahead(images(), LoaderOptions{.batch = 7});
    EXPECT_EQ(allocated_in_later_epochs(plain), 0);
    EXPECT_EQ(allocated_in_later_epochs(ahead), 0);
    EXPECT_GT(allocations.load(), 0) << "they are counted";
}
TEST(Prefetched, KeepsMoreWhenAsked) {
    Prefetched<InMemory<>, 3> ahead(images(), {.batch = 5, .shuffle = false});
    InMemory<> plain(images(), {.batch = 5, .shuffle = false});
    ahead.keep(6);
    plain.keep(6);
    ahead.begin_epoch(0);
    plain.begin_epoch(0);
    std::vector<RankBatch> a, b;
    for (int i = 0; i < 6; ++i) {
        a.push_back(ahead.next());
        b.push_back(plain.next());
    }
    for (std::size_t i = 0; i < 6; ++i)
        EXPECT_THAT(a[i].batch.images, ElementsAreArray(b[i].batch.images)) << i;
}

// ---- Bounds, ends and faults ----------------------------------------------------------------
/// Counts what it made; fails at one draw.
struct Watched {
    struct Log {
        std::atomic<int> made{0};
        int fails_at = -1;
        int kept = 0;
    };
    std::shared_ptr<Log> log;
    int step = 0;

    explicit Watched(std::shared_ptr<Log> l) : log(std::move(l)) {}
    ImageShape shape() const { return {1, 1, 1}; }
    int classes() const { return 2; }
    std::int64_t images_per_epoch() const { return 20; }
    std::int64_t steps_per_epoch() const { return 20; }
    void begin_epoch(int epoch) {
        if (epoch == 13) throw Error("epoch 13");
        step = 0;
    }
    RankBatch next() {
        if (step == log->fails_at) throw Error("draw " + std::to_string(step));
        ++log->made;
        return {{.count = 1, .draw = std::uint64_t(step++)}, 1};
    }
    void keep(int batches) { log->kept = batches; }
};
static_assert(Loader<Watched>);

TEST(Prefetched, NeverMakesMoreThanDepthAhead) {
    const auto log = std::make_shared<Watched::Log>();
    Prefetched<Watched, 3> ahead(log);
    EXPECT_EQ(log->kept, 5);
    ahead.begin_epoch(0);
    for (int taken = 1; taken <= 20; ++taken) {
        EXPECT_EQ(ahead.next().batch.draw, std::uint64_t(taken - 1));
        EXPECT_LE(log->made.load(), taken + 3);
    }
    EXPECT_EQ(log->made.load(), 20);
}
TEST(Prefetched, GoesOnReadingAnEpochThatIsBegunAgain) {
    const auto log = std::make_shared<Watched::Log>();
    Prefetched<Watched, 3> ahead(log);
    ahead.begin_epoch(0);
    while (log->made < 3) std::this_thread::yield();
    ahead.begin_epoch(0);
    for (std::uint64_t i = 0; i < 20; ++i) EXPECT_EQ(ahead.next().batch.draw, i);
    EXPECT_EQ(log->made.load(), 20) << "what it had read was used";
    ahead.begin_epoch(0);
    EXPECT_EQ(ahead.next().batch.draw, 0u) << "a batch was taken";
}
TEST(Prefetched, EndsWhenNobodyTakesTheRest) {
    const auto log = std::make_shared<Watched::Log>();
    {
        Prefetched<Watched> never_begun(log);
        Prefetched<Watched> begun(log);
        begun.begin_epoch(0);
        (void)begun.next();
    }
    EXPECT_EQ(log.use_count(), 1) << "both are gone, and their threads with them";
}
TEST(Prefetched, ThrowsInItsPlaceAndGoesOn) {
    const auto log = std::make_shared<Watched::Log>();
    log->fails_at = 4;
    Prefetched<Watched> ahead(log);
    for (int round = 0; round < 3; ++round) {
        ahead.begin_epoch(round);
        for (int i = 0; i < 4; ++i) EXPECT_EQ(ahead.next().batch.draw, std::uint64_t(i));
        for (int again = 0; again < 2; ++again) {
            try {
                (void)ahead.next();
                FAIL() << "draw 4 fails";
            } catch (const Error& e) {
                EXPECT_STREQ(e.what(), "draw 4");
            }
        }
    }
    ahead.begin_epoch(13);
    EXPECT_THROW((void)ahead.next(), Error);
    ahead.begin_epoch(0);
    EXPECT_EQ(ahead.next().batch.draw, 0u);
}
TEST(PrefetchedDeathTest, StopsOnABrokenContract) {
    testing::FLAGS_gtest_death_test_style = "threadsafe";
    EXPECT_DEATH(
        {
            Prefetched<InMemory<>> ahead(images(), LoaderOptions{.batch = 100});
            (void)ahead.next();
        },
        "begin_epoch\\(\\) comes before");
    EXPECT_DEATH(
        {
            Prefetched<InMemory<>> ahead(images(), LoaderOptions{.batch = 100});
            ahead.begin_epoch(0);
            (void)ahead.next();
            (void)ahead.next();
        },
        "begin the next one");
}
TEST(PrefetchedDeathTest, EndsAnEpochThatIsBegunWithinAsOtherLoadersDo) {
    testing::FLAGS_gtest_death_test_style = "threadsafe";
    const LoaderOptions o{.batch = 10};
    const auto read_one_more_than_are_left = [](auto&& loader) {
        loader.begin_epoch(0, 80);
        for (std::int64_t i = 0; i < loader.steps_after(80); ++i) (void)loader.next();
        std::fputs("all were read; ", stderr);
        (void)loader.next();
    };
    const char* const end = "all were read; .*begin the next one";
    EXPECT_DEATH(read_one_more_than_are_left(InMemory<>(images(), o)), end);
    EXPECT_DEATH(read_one_more_than_are_left(Prefetched<InMemory<>>(images(), o)), end);
    EXPECT_DEATH(read_one_more_than_are_left(Prefetched<Prefetched<InMemory<>>>(images(), o)), end);
}

}  // namespace
