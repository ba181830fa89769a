// Going back to the newest checkpoint, behind or within an epoch: reducers that own the update,
// whose state is cut anew for the ranks that are left, and others.
#include <gx/trainer/rank/training.hpp>  // first, so the header is seen to stand alone

#include <sys/resource.h>  // setrlimit

#include <atomic>      // messages
#include <csignal>     // SIGXFSZ
#include <functional>  // hooks
#include <map>         // clean histories

#include <gtest/gtest.h>

#include <gx/local_sgd/reducer.hpp>               // LocalSgd
#include <gx/optimizer/adamw.hpp>                 // AdamW
#include <gx/reducer/bucketed.hpp>                // Bucketed
#include <gx/reducer/double_buffered.hpp>         // DoubleBuffered
#include <gx/reducer/ring.hpp>                    // Ring
#include <gx/scheduler/linear_scaling.hpp>        // LinearScaling
#include <gx/sharded/reducer.hpp>                 // Sharded
#include <gx/sim/catalog/simple_clusters.hpp>     // ethernet_10g
#include <gx/sim/fault/faults.hpp>                // DeadGpu
#include <gx/survival/continue_on_survivors.hpp>  // ContinueOnSurvivors
#include <gx/top_k/reducer.hpp>                   // TopK
#include <gx/trainer/trainer.hpp>                 // Trainer
#include <trainer/losing.hpp>                     // Mortal, Scripted
#include <trainer/small.hpp>                      // EveryRole, images

namespace {

using namespace testing_support;
using namespace gx::literals;
using gx::fp32;
using gx::Recovery;
using Rate = gx::LinearScaling<gx::Poly<2>>;
constexpr int ranks = 4, epochs = 3;
constexpr std::int64_t images_of_epoch = 17;  // steps of 8, 8 and 1; with three ranks 6, 6 and 5

// ---- Worlds that count messages -------------------------------------------------------
struct Message {
    std::size_t world;
    int rank, number;  ///< of those that the rank sends in this world, from 1
    bool gathers;      ///< the optimizer's state, for a checkpoint
    gx::Nanoseconds now;
};
/// Called before each message.
std::function<void(const Message&)> on_message;
/// Whether the sender is lost before it is sent, on threads.
std::function<bool(const Message&)> dies;

template <class Rank>
using LinkOf = std::remove_reference_t<decltype(std::declval<Rank&>().transport())>;
template <class Rank>
class CountingLink : public gx::TransportOver<LinkOf<Rank>> {
    using Under = gx::TransportOver<LinkOf<Rank>>;

public:
    explicit CountingLink(Rank& rank) : Under(rank.transport()), rank_(&rank) {}
    gx::Request send(int to, int channel, std::span<const std::byte> message) {
        const Message m{script().world, this->rank(), ++sent_, gathers_, rank_->now()};
        if (on_message) on_message(m);
        if constexpr (requires { rank_->stream().cancel(); })
            if (dies && dies(m)) rank_->stream().cancel();
        return Under::send(to, channel, message);
    }
    void working_on(const gx::Operation& o) {
        gathers_ = o.what.view() == "gathering the optimizer's state";
        Under::working_on(o);
    }

private:
    Rank* rank_;
    std::atomic<int> sent_{0};  // by the rank's thread and by its stream's
    std::atomic<bool> gathers_{false};
};

/// W, whose ranks count the messages that they send.
template <class W>
class Counting {
public:
    struct Rank {
        using Device = typename W::Rank::Device;
        explicit Rank(typename W::Rank& inner_in) : inner(inner_in), link(inner) {}
        typename W::Rank& inner;
        CountingLink<typename W::Rank> link;
        [[nodiscard]] int rank() const { return inner.rank(); }
        [[nodiscard]] int ranks() const { return inner.ranks(); }
        [[nodiscard]] auto& transport() { return link; }
        [[nodiscard]] auto& stream() { return inner.stream(); }
        [[nodiscard]] gx::Nanoseconds now() const { return inner.now(); }
        [[nodiscard]] double wire_scale() const { return gx::wire_scale_of(inner); }
        [[nodiscard]] auto make_device(const gx::Graph& graph, gx::DeviceOptions o) {
            return inner.make_device(graph, o);
        }
    };
    explicit Counting(std::unique_ptr<W> world) : world_(std::move(world)) {}
    [[nodiscard]] int ranks() const { return world_->ranks(); }
    [[nodiscard]] gx::Placement placement() const { return world_->placement(); }
    void run(gx::FunctionRef<void(Rank&)> f) {
        world_->run([&](typename W::Rank& inner) {
            Rank rank(inner);
            f(rank);
        });
    }
    [[nodiscard]] gx::Survivors<Counting> survivors(std::span<const int> lost,
                                                    gx::Nanoseconds t) const {
        auto left = world_->survivors(lost, t);
        return {left.members,
                left.world ? std::make_unique<Counting>(std::move(left.world)) : nullptr};
    }

private:
    std::unique_ptr<W> world_;
};
using OnThreads = Scripted<Counting<gx::ThreadWorld<Mortal>>>;
using OnCluster = Scripted<Counting<gx::sim::Cluster<Mortal>>>;

OnThreads threads_of(int n = ranks) {
    using World = gx::ThreadWorld<Mortal>;
    return OnThreads(std::make_unique<Counting<World>>(
        std::make_unique<World>(World::Options{.placement = {n, 1}})));
}
OnCluster cluster_of(gx::sim::FaultList faults = {}) {
    using World = gx::sim::Cluster<Mortal>;
    return OnCluster(std::make_unique<Counting<World>>(std::make_unique<World>(
        gx::sim::ethernet_10g(ranks),
        gx::sim::ClusterOptions{
            .deadline = 1'000'000_us, .faults = std::move(faults), .faults_must_fire = false})));
}

// ---- Runs -----------------------------------------------------------------------------
template <class R, class O>
struct Composed {
    using Trainer = gx::Trainer<EveryRole, Departing<R>, Rate, O, gx::ContinueOnSurvivors>;
    using Stopping = gx::Trainer<EveryRole, Departing<R>, Rate, O>;
};
gx::Split data() { return numbered(images(images_of_epoch)); }

std::int64_t every_steps = 0;  ///< checkpoints within epochs

template <class T>
typename T::Options options() {
    typename T::Options o;
    o.batch = 2;
    o.epochs = epochs;
    o.seed = 7;
    o.checkpoints.every_steps = every_steps;
    o.scheduler = {.reference_batch = 8, .next = {.peak_rate = 0.1f}};
    if constexpr (requires { o.survival.recovery; }) o.survival.recovery = Recovery::checkpoint;
    return o;
}
template <class T>
Outcome trained(auto world, std::vector<Departure> departures = {}) {
    set_script(std::move(departures));
    return outcome<T, EveryRole>(world, data(), options<T>(), true);
}
void expect_counted(const Outcome& run) {
    EXPECT_EQ(std::ssize(run.seen), images_of_epoch);
    for (const auto& [image, times] : run.seen) EXPECT_EQ(times, epochs) << image;
    std::int64_t step = 0;
    for (const gx::StepRow& row : run.record.steps) EXPECT_EQ(row.step, step++);
    EXPECT_EQ(step, run.record.epochs.back().step);
    EXPECT_EQ(std::ssize(run.record.epochs), epochs);
}
/// The optimizer's state of the last world: of a part, or of everything.
template <class R, class O>
void expect_state_of_a_share(const Outcome& run) {
    if constexpr (gx::OwnsUpdate<R>) {
        const std::int64_t all =
            std::int64_t(gx::state_vectors<O>()) * std::ssize(run.end.parameters);
        std::int64_t sum = 0, most = 0, n = 0;
        for (const auto& [of, elements] : script().state_elements)
            if (of.first == script().world) sum += elements, most = std::max(most, elements), ++n;
        EXPECT_EQ(sum, R::owns_update.in_parts ? all : n * all) << n << " ranks";
        if (!R::owns_update.in_parts) return;
        // Each bucket is cut into parts that differ by one.
        EXPECT_LE(most * n, all + n * n * 8 * std::int64_t(gx::state_vectors<O>()));
        EXPECT_EQ(n, run.record.losses.empty() ? ranks : run.record.losses.back().ranks);
    }
}

/// Runs of the same history, without faults: ranks leave between two steps.
template <class T>
class CleanRuns {
public:
    const Outcome& of(const gx::RunRecord& history) {
        std::vector<std::int64_t> key;
        for (const gx::LossRow& row : history.losses) {
            key.push_back(row.step);
            key.insert(key.end(), row.lost.begin(), row.lost.end());
            key.push_back(-1);
        }
        const auto known = runs_.find(key);
        if (known != runs_.end()) return known->second;
        return runs_[key] = trained<T>(threads_of(), departures_of(history.losses, ranks));
    }
    [[nodiscard]] std::size_t size() const { return runs_.size(); }

private:
    std::map<std::vector<std::int64_t>, Outcome> runs_;
};

template <class C>
class OwnersSurvive : public ::testing::Test {
protected:
    void SetUp() override { on_message = nullptr, dies = nullptr, every_steps = 0; }
    void TearDown() override { SetUp(); }
};
template <class R, class O>
struct Case {
    using Reducer = R;
    using Optimizer = O;
    using T = typename Composed<R, O>::Trainer;
    using Stopping = typename Composed<R, O>::Stopping;
};
using Cases = ::testing::Types<Case<gx::Sharded<gx::Ring<fp32>>, gx::AdamW>,
                               Case<gx::Sharded<gx::Bucketed<gx::Ring<fp32>, 64>>, gx::Sgd>,
                               Case<gx::LocalSgd<gx::Ring<fp32>, 2>, gx::Sgd>>;
TYPED_TEST_SUITE(OwnersSurvive, Cases);

// ---- At any message -------------------------------------------------------------------
template <class C>
void expect_history(const Outcome& run, CleanRuns<typename C::T>& clean) {
    expect_counted(run);
    expect_state_of_a_share<typename C::Reducer, typename C::Optimizer>(run);
    const Outcome& same = clean.of(run.record);
    expect_same_learning(run.record, same.record);
    expect_same_state(run, same);
}
/// The steps that some runs went back to, and messages of gathers that a rank died at.
struct Places {
    std::map<std::int64_t, int> steps{};
    int gathers = 0;
    void add(const gx::RunRecord& r) {
        for (const gx::LossRow& row : r.losses) ++steps[row.step];
    }
};

TYPED_TEST(OwnersSurvive, ADeathAtManyMessagesOnThreads) {
    using C = TypeParam;
    CleanRuns<typename C::T> clean;
    Places places;
    for (const int victim : {0, 3}) {
        int messages = 0;
        on_message = [&](const Message& m) {
            if (m.rank != victim) return;
            messages = m.number;
            places.gathers += m.gathers;
        };
        const Outcome whole = trained<typename C::T>(threads_of());
        on_message = nullptr;
        EXPECT_TRUE(whole.record.losses.empty());
        ASSERT_GT(messages, 50);
        // Threads take turns at each message: a cluster, which is one thread, has all of them.
        const int every = victim == 0 ? 9 : C::Reducer::bucket_elements > 0 ? 7 : 3;
        for (int at = 1; at <= messages && !this->HasFailure(); at += every) {
            SCOPED_TRACE("rank " + std::to_string(victim) + " dies at message " +
                         std::to_string(at) + " of " + std::to_string(messages));
            dies = [&](const Message& m) {
                return m.world == 0 && m.rank == victim && m.number == at;
            };
            const Outcome run = trained<typename C::T>(threads_of());
            ASSERT_EQ(run.record.losses.size(), 1u);
            EXPECT_EQ(run.record.losses[0].lost, std::vector<int>{victim});
            dies = nullptr;
            places.add(run.record);
            expect_history<C>(run, clean);
        }
    }
    EXPECT_EQ(places.steps.size(), std::size_t(epochs)) << "from the start on, or behind an epoch";
    EXPECT_EQ(places.gathers > 0, C::Reducer::owns_update.in_parts);
}

/// When a rank of a cluster sends a message.
template <class T>
std::vector<gx::Nanoseconds> times_of_messages(int sender, Places* places = nullptr) {
    std::vector<gx::Nanoseconds> times;
    on_message = [&](const Message& m) {
        if (m.rank != sender) return;
        if (times.empty() || times.back() != m.now) times.push_back(m.now);
        if (places) places->gathers += m.gathers;
    };
    (void)trained<T>(cluster_of());
    on_message = nullptr;
    return times;
}
/// Each message, but where there are many buckets.
std::size_t every(const std::vector<gx::Nanoseconds>& times) { return times.size() > 150 ? 3 : 1; }

/// Steps of an epoch: 1 to 3, of which the third ends it.
template <class C>
class GoBackWithinEpochs : public OwnersSurvive<C> {};
using Late = gx::DoubleBuffered<gx::Bucketed<gx::TopK, 64>>;  // in flight, and state of each rank
using CasesWithin =
    ::testing::Types<Case<gx::Sharded<gx::Ring<fp32>>, gx::AdamW>,
                     Case<gx::LocalSgd<gx::Ring<fp32>, 2>, gx::Sgd>, Case<Late, gx::Sgd>>;
TYPED_TEST_SUITE(GoBackWithinEpochs, CasesWithin);

TYPED_TEST(GoBackWithinEpochs, ADeathAtEachMessage) {
    using C = TypeParam;
    CleanRuns<typename C::T> clean;
    Places places;
    int twice = 0;
    every_steps = 2;  // 2, 4 and 8; LocalSgd has means behind 2, 5 and 8 and at ends of epochs
    constexpr int victim = 3;
    const auto times = times_of_messages<typename C::T>(victim);
    for (std::size_t i = 0; i < times.size() && !this->HasFailure(); i += every(times)) {
        const gx::Nanoseconds at = times[i];
        SCOPED_TRACE("rank 3 dies at " + std::to_string(at.count()));
        gx::sim::FaultList deaths{gx::sim::DeadGpu{victim, at}};
        if (i % 2 == 0)  // behind the deadline that ends the first world
            deaths.push_back(gx::sim::DeadGpu{1, at + 1'000'000_us + times[i / 4]});
        const Outcome run = trained<typename C::T>(cluster_of(deaths));
        ASSERT_GE(run.record.losses.size(), 1u);
        places.add(run.record);
        twice += run.record.losses.size() == 2;
        expect_history<C>(run, clean);
    }
    EXPECT_GT(twice, 3);
    for (const std::int64_t step : {0, 2, 3, 6, 8}) EXPECT_GT(places.steps[step], 0) << step;
}
TYPED_TEST(GoBackWithinEpochs, PastOnesThatAreTorn) {
    using T = typename TypeParam::T;
    every_steps = 2;
    struct Tears : OnThreads {  // between the worlds
        using OnThreads::OnThreads;
        std::filesystem::path folder{};
        std::vector<const char*> names{};
        auto survivors(std::span<const int> lost, gx::Nanoseconds t) const {
            for (const char* const name : names) std::filesystem::resize_file(folder / name, 9);
            return OnThreads::survivors(lost, t);
        }
    };
    const auto run = [&](std::vector<const char*> names) {
        const Folder folder;
        auto o = options<T>();
        o.output = folder.path;
        set_script({{{1}, 5}});
        using World = gx::ThreadWorld<Mortal>;
        Tears world(std::make_unique<Counting<World>>(
            std::make_unique<World>(World::Options{.placement = {ranks, 1}})));
        world.folder = folder.path, world.names = std::move(names);
        const auto record = T(o).train(world, data());
        EXPECT_EQ(record.steps.size(), std::size_t(record.epochs.back().step));
        return record.losses.at(0).step;
    };
    const bool late = gx::OwnsUpdate<typename TypeParam::Reducer> &&
                      std::is_same_v<typename TypeParam::Optimizer, gx::Sgd>;
    const char* const within = late ? "step-00000005.safetensors" : "step-00000004.safetensors";
    EXPECT_EQ(run({}), late ? 5 : 4);
    EXPECT_EQ(run({within}), 3);
    EXPECT_EQ(run({within, "epoch-0001.safetensors"}), 0);
}
/// Trains steps of 4 images, 5 an epoch, with checkpoints behind every `every` of them, of which
/// those of these names can't be written, as on a full disk; rank 1 is lost at step `at`.
template <class T>
gx::RunRecord record_without(std::initializer_list<const char*> names, int every, std::int64_t at) {
    every_steps = every;
    const Folder folder;
    auto o = options<T>();
    o.output = folder.path;
    o.batch = 1;
    o.checkpoints.stop_on_failure = false;
    for (const char* const name : names)
        std::filesystem::create_directories(folder / name / "in the way");
    set_script({{{1}, at}});
    auto world = threads_of();
    gx::RunRecord record = T(o).train(world, data());
    EXPECT_EQ(record.losses.size(), 1u);
    EXPECT_EQ(record.steps.size(), std::size_t(record.epochs.back().step));
    return record;
}
bool any_has(const std::vector<std::string>& sentences, const char* words) {
    return std::ranges::any_of(sentences,
                               [&](const std::string& s) { return s.find(words) != s.npos; });
}
/// The steps since the one before it are lost alone.
TYPED_TEST(GoBackWithinEpochs, ToAnOlderOneWhereTheNewestCouldNotBeWritten) {
    using Means = gx::LocalSgd<gx::Ring<fp32>, 2>;
    const auto record = record_without<typename TypeParam::T>({"step-00000004.safetensors"}, 1, 4);
    EXPECT_EQ(record.losses.at(0).step,
              (std::is_same_v<typename TypeParam::Reducer, Means> ? 2 : 3));
    EXPECT_TRUE(any_has(record.notes, "step-00000004"));
    EXPECT_TRUE(any_has(record.warnings, "checkpoint after step 4: "))
        << "its error is known, though the run was lost before it asked";
}
/// The epoch's own was not written, and none of the next epoch yet.
TYPED_TEST(GoBackWithinEpochs, ToOneWithinAnEpochWhoseOwnCouldNotBeWritten) {
    const auto record = record_without<typename TypeParam::T>({"epoch-0001.safetensors"}, 2, 5);
    EXPECT_EQ(record.losses.at(0).step, 4);
}
/// Those within it are older, and are not read.
TYPED_TEST(GoBackWithinEpochs, ToTheEpochsOwnWithoutAWordOfOlderOnes) {
    const auto record = record_without<typename TypeParam::T>(
        {"step-00000002.safetensors", "step-00000004.safetensors"}, 2, 5);
    EXPECT_EQ(record.losses.at(0).step, 5);
    EXPECT_FALSE(any_has(record.notes, "An older checkpoint"));
}

TYPED_TEST(OwnersSurvive, ADeathAtEachMessageOnACluster) {
    using C = TypeParam;
    CleanRuns<typename C::T> clean;
    Places places;
    for (const int victim : {0, 2}) {
        const auto times = times_of_messages<typename C::T>(victim, &places);
        ASSERT_GT(times.size(), 50u);
        for (std::size_t i = 0; i < times.size(); i += every(times)) {
            const gx::Nanoseconds at = times[i];
            SCOPED_TRACE("rank " + std::to_string(victim) + " dies at " +
                         std::to_string(at.count()));
            const Outcome run = trained<typename C::T>(cluster_of({gx::sim::DeadGpu{victim, at}}));
            ASSERT_EQ(run.record.losses.size(), 1u);
            EXPECT_EQ(run.record.losses[0].lost, std::vector<int>{victim});
            places.add(run.record);
            expect_history<C>(run, clean);
            if (this->HasFailure()) return;
        }
    }
    EXPECT_EQ(places.steps.size(), std::size_t(epochs));
    EXPECT_EQ(places.gathers > 0, C::Reducer::owns_update.in_parts);
}
TYPED_TEST(OwnersSurvive, ASecondDeathOnThreads) {
    using C = TypeParam;
    CleanRuns<typename C::T> clean;
    int twice = 0, again = 0;
    for (int at = 1; at <= 40 && !this->HasFailure(); at += 3) {
        SCOPED_TRACE("from message " + std::to_string(at));
        dies = [&](const Message& m) {  // the second is rank 3 of the first world
            return m.number == at && m.world < 2 && m.rank == int(m.world) + 1;
        };
        const Outcome run = trained<typename C::T>(threads_of());
        dies = nullptr;
        expect_history<C>(run, clean);
        if (run.record.losses.size() < 2) continue;  // few messages were left
        ++twice;
        again += run.record.losses[0].step == run.record.losses[1].step;
    }
    EXPECT_GT(twice, 5);
    EXPECT_GT(again, 0) << "before the next checkpoint: from the same one again";
}
TYPED_TEST(OwnersSurvive, TwoDeathsOnACluster) {
    using C = TypeParam;
    CleanRuns<typename C::T> clean;
    int at_once = 0;
    const auto times = times_of_messages<typename C::T>(2);
    for (std::size_t i = 0; i < times.size() && !this->HasFailure(); i += 6) {
        SCOPED_TRACE("at " + std::to_string(times[i].count()));
        const Outcome run = trained<typename C::T>(cluster_of(
            {gx::sim::DeadGpu{2, times[i]}, gx::sim::DeadGpu{0, times[i] + gx::Nanoseconds(1)}}));
        int lost = 0;
        for (const gx::LossRow& row : run.record.losses) lost += int(row.lost.size());
        EXPECT_EQ(lost, 2);
        at_once += run.record.losses.size() == 1;
        expect_history<C>(run, clean);
    }
    EXPECT_GT(at_once, 5);
}

// ---- What survivors go on from --------------------------------------------------------
/// The end of a run that stops, and is resumed by fewer ranks from the same checkpoint.
TYPED_TEST(OwnersSurvive, EndsAsARunThatIsResumedByTheOthers) {
    using C = TypeParam;
    if (C::Reducer::owns_update.apart) GTEST_SKIP() << "resumes on as many ranks";
    using T = typename C::Stopping;
    for (const std::int64_t step : {1, 3, 5}) {  // steps of 3 an epoch
        const Outcome run = trained<typename C::T>(threads_of(), {{{1}, step}});
        const Folder folder;
        set_script({});
        auto o = options<T>();
        o.output = folder.path;
        if (step >= 3) {
            auto all = threads_of();
            (void)T(o).train(all, data());
            o.resume = folder / "epoch-0001.safetensors";
        }
        auto others = threads_of(3);
        const gx::RunRecord resumed = T(o).train(others, data());
        expect_same_learning(run.record, resumed);
        const gx::Checkpoint end =
            gx::read_checkpoint(folder.path / gx::checkpoint_name(epochs), gx::graph<EveryRole>());
        EXPECT_EQ(end.optimizer, run.end.optimizer);
        EXPECT_EQ(end.parameters, run.end.parameters);
        EXPECT_EQ(end.statistics, run.end.statistics);
    }
}

TYPED_TEST(OwnersSurvive, OnlyFromCheckpoints) {
    using T = typename TypeParam::T;
    auto o = options<T>();
    o.batch = 0;
    o.survival.recovery = Recovery::survivors;
    o.checkpoints.every_steps = 2;
    auto world = threads_of();
    set_script({});
    EXPECT_TRUE(holds(error_of([&] { (void)T(o).train(world, data()); }), "batch is 0",
                      "leave out 'checkpoints.every_steps', or set survival.recovery to "
                      "gx::Recovery::checkpoint",
                      "survival.recovery is Recovery::survivors: with " +
                          gx::reducer_name<typename TypeParam::Reducer>() +
                          ", which owns the update",
                      "set it to gx::Recovery::checkpoint, and output to a folder"));
    o.batch = 2;
    o.survival.recovery = Recovery::checkpoint;
    EXPECT_TRUE(holds(error_of([&] { (void)T(o).train(world, data()); }),
                      "output is empty: recovery from checkpoints needs a folder"));
}

// Another run has left its checkpoints in the folder, and the disk is full, so that they stay.
TYPED_TEST(OwnersSurvive, NotFromACheckpointOfAnotherRun) {
    using T = typename TypeParam::T;
    const Folder folder;
    auto o = options<T>();
    o.output = folder.path;
    o.seed = 99;
    set_script({});
    auto other = threads_of();
    (void)T(o).train(other, data());
    o.seed = 7;
    o.checkpoints.stop_on_failure = false;
    set_script({{{1}, 4}});
    auto world = threads_of();
    const auto before = std::signal(SIGXFSZ, SIG_IGN);
    rlimit all{};
    ::getrlimit(RLIMIT_FSIZE, &all);
    const rlimit few{.rlim_cur = 16, .rlim_max = all.rlim_max};
    ::setrlimit(RLIMIT_FSIZE, &few);
    const auto record = T(o).train(world, data());
    ::setrlimit(RLIMIT_FSIZE, &all);
    std::signal(SIGXFSZ, before);
    ASSERT_EQ(record.losses.size(), 1u);
    EXPECT_EQ(record.losses[0].step, 0);
    EXPECT_TRUE(std::ranges::any_of(record.notes, [](const std::string& note) {
        return note.find("is of another run") != std::string::npos;
    }));
}
// To begin anew would be another run.
TYPED_TEST(OwnersSurvive, StopsWhereNoCheckpointIsLeftOfARunThatWasResumed) {
    using T = typename TypeParam::T;
    struct Deletes : OnThreads {  // between the worlds
        using OnThreads::OnThreads;
        std::filesystem::path file{};
        auto survivors(std::span<const int> lost, gx::Nanoseconds t) const {
            std::filesystem::remove(file);
            return OnThreads::survivors(lost, t);
        }
    };
    const Folder before, folder;
    auto o = options<T>();
    o.output = before.path;
    o.epochs = 1;
    set_script({});
    auto all = threads_of();
    (void)T(o).train(all, data());
    o.epochs = 3;
    o.output = folder.path;
    o.resume = before / "epoch-0001.safetensors";
    set_script({{{1}, 4}});
    using World = gx::ThreadWorld<Mortal>;
    Deletes world(std::make_unique<Counting<World>>(
        std::make_unique<World>(World::Options{.placement = {ranks, 1}})));
    world.file = o.resume;
    EXPECT_TRUE(holds(error_of([&] { (void)T(o).train(world, data()); }),
                      "no checkpoint to go back to can be used", o.resume.string(),
                      "Restore one of them, and resume from it"));
    EXPECT_TRUE(std::filesystem::is_empty(folder.path));
}

/// LocalSgd keeps the momentum of each rank, as of its checkpoint: a survivor its own.
TEST(LocalSgdSurvives, EachRankKeepsItsOwnState) {
    using T = Composed<gx::LocalSgd<gx::Ring<fp32>, 2>, gx::Sgd>::Trainer;
    const Folder folder;
    set_script({{{1}, 3}});
    auto o = options<T>();
    o.output = folder.path;
    o.epochs = 2;
    auto world = threads_of();
    (void)T(o).train(world, data());
    const auto graph = gx::graph<EveryRole>();
    const auto before = gx::read_checkpoint(folder / "epoch-0001.safetensors", graph),
               after = gx::read_checkpoint(folder / "epoch-0002.safetensors", graph);
    ASSERT_EQ(before.reducer.size(), 1u);
    ASSERT_EQ(before.reducer[0].ranks.size(), 4u);
    ASSERT_EQ(after.reducer[0].ranks.size(), 3u);
    EXPECT_NE(before.reducer[0].ranks[2], before.reducer[0].ranks[3]);
    EXPECT_NE(after.reducer[0].ranks[1], after.reducer[0].ranks[2]);
}

}  // namespace
