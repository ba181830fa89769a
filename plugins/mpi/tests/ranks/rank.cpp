// One rank of an MPI job that the tests start: does what its first argument says, and writes how it
// ended.
// Run:    mpirun -n 3 plugins.mpi.rank.openmpi reductions FOLDER
// Writes: FOLDER/RANK: what the mode found, or the error of the rank.
#include <dlfcn.h>         // dlsym
#include <pthread.h>       // pthread_create
#include <signal.h>        // kill
#include <sys/prctl.h>     // PR_SET_PDEATHSIG
#include <sys/resource.h>  // setrlimit
#include <time.h>          // timer_create
#include <unistd.h>        // sysconf

#include <atomic>
#include <cerrno>
#include <cstdlib>
#include <deque>
#include <filesystem>
#include <fstream>
#include <functional>
#include <map>
#include <memory>
#include <numeric>
#include <string>
#include <thread>
#include <vector>

#include <gx/collective/dissemination_barrier.hpp>
#include <gx/coordination/process_cores.hpp>
#include <gx/mpi/all_reduce.hpp>
#include <gx/mpi/guard.hpp>
#include <gx/mpi/library.hpp>
#include <gx/mpi/world.hpp>
#include <gx/reducer/bucketed.hpp>
#include <gx/reducer/double_buffered.hpp>
#include <gx/reducer/multi_ring.hpp>
#include <gx/shared_memory/reducer.hpp>
#include <gx/testing/arrival_order.hpp>
#include <gx/testing/worlds.hpp>
#include <gx/threads/threads.hpp>
#include <gx/trainer/trainer.hpp>

#include <support/counted_new.hpp>
#include <support/interface_bytes.hpp>
#include <trainer/small.hpp>

#include "ends.hpp"
#include "levels.hpp"
#include "reductions.hpp"
#include "training.hpp"

// What the C++ library takes for the cores of this machine; 0: those that it has.
int cores_told = 0;
extern "C" int get_nprocs() noexcept {
    return cores_told > 0 ? cores_told : int(sysconf(_SC_NPROCESSORS_ONLN));
}

// A system without threads.
extern "C" int pthread_create(pthread_t* thread, const pthread_attr_t* attributes,
                              void* (*start)(void*), void* argument) noexcept {
    using Create = int (*)(pthread_t*, const pthread_attr_t*, void* (*)(void*), void*);
    static const auto create = reinterpret_cast<Create>(::dlsym(RTLD_NEXT, "pthread_create"));
    return gx::mpi_tests::has_no_threads ? EAGAIN : create(thread, attributes, start, argument);
}

// Counts what a thread allocates; MPI's own malloc() is not counted.
thread_local std::int64_t allocated = 0;
void testing_support::note_allocation(std::size_t, const void*) noexcept { ++allocated; }

// What of MPI is called in a run, and by how many other threads than the one that initialised it.
namespace calls {
std::atomic<int> all = 0, by_others = 0;
std::atomic<std::thread::id> initialized_by{};
void count() {
    ++all;
    by_others += std::this_thread::get_id() != initialized_by.load();
}
}  // namespace calls
int MPI_Init_thread(int* argc, char*** argv, int wanted, int* given) {
    calls::initialized_by = std::this_thread::get_id();
    return PMPI_Init_thread(argc, argv, wanted, given);
}
int MPI_Isend(const void* message, int count, MPI_Datatype type, int to, int tag, MPI_Comm comm,
              MPI_Request* request) {
    calls::count();
    return PMPI_Isend(message, count, type, to, tag, comm, request);
}
int MPI_Irecv(void* message, int count, MPI_Datatype type, int from, int tag, MPI_Comm comm,
              MPI_Request* request) {
    calls::count();
    return PMPI_Irecv(message, count, type, from, tag, comm, request);
}
int MPI_Testany(int count, MPI_Request requests[], int* index, int* done, MPI_Status* status) {
    calls::count();
    return PMPI_Testany(count, requests, index, done, status);
}
int MPI_Test(MPI_Request* request, int* done, MPI_Status* status) {
    calls::count();
    return PMPI_Test(request, done, status);
}
int MPI_Iallreduce(const void* from, void* to, int count, MPI_Datatype type, MPI_Op sum,
                   MPI_Comm comm, MPI_Request* request) {
    calls::count();
    return PMPI_Iallreduce(from, to, count, type, sum, comm, request);
}
int MPI_Comm_idup(MPI_Comm comm, MPI_Comm* made, MPI_Request* request) {
    calls::count();
    return PMPI_Comm_idup(comm, made, request);
}
int MPI_Comm_free(MPI_Comm* comm) {
    calls::count();
    return PMPI_Comm_free(comm);
}
int MPI_Finalize() {
    if (std::this_thread::get_id() != calls::initialized_by.load()) std::abort();
    return PMPI_Finalize();
}

namespace {

using namespace gx;
using Arguments = std::vector<std::string>;
using gx::testing::Rows;

int number(const Arguments& arguments, std::size_t i, int otherwise) {
    return i < arguments.size() ? std::atoi(arguments[i].c_str()) : otherwise;
}

// ---- Reductions ---------------------------------------------------------------------------------

/// A transport whose ranks are on the machines of a placement.
class Placed : public TransportOver<mpi::Transport> {
public:
    Placed(mpi::Transport& link, Placement placement)
        : TransportOver(link), placement_(placement) {}
    [[nodiscard]] Placement placement() const { return placement_; }

private:
    Placement placement_;
};

std::string reductions(mpi::World<>& world, const std::string& part = "") {
    gx::testing::AnyWorld any;
    any.run = [&](Placement placement, gx::testing::RankFunction f) {
        world.run([&](auto& rank) {
            Placed link(rank.transport(), placement);
            gx::testing::RankWithTransport placed(rank, link);
            gx::testing::detail::run_as_any(placed, f);
        });
    };
    const auto found =
        mpi_tests::compare_with_threads(any, world.first_local_rank(), world.ranks(), part);
    if (!found.differences.empty()) return found.differences;
    return std::to_string(found.reducers) + " reducers have the bits of threads";
}

/// Worlds of the first ranks of the job, for checks of other rank counts. What each rank gives is
/// gathered beside them, also by the processes that have no rank in a world.
class Worlds {
public:
    explicit Worlds(MPI_Comm all) : messages_(all, std::chrono::minutes(2)) {
        MPI_Comm_rank(all, &rank_), MPI_Comm_size(all, &ranks_);
    }
    [[nodiscard]] gx::testing::AnyWorld any() {
        gx::testing::AnyWorld any;
        any.run = [this](Placement p, gx::testing::RankFunction f) { run(p, f); };
        any.gather = [this](Placement p, gx::testing::ByteVector mine) { return gather(p, mine); };
        return any;
    }

private:
    /// A world that has lost a rank is not used again.
    void run(Placement placement, gx::testing::RankFunction f) {
        const int n = placement.ranks();
        if (n > ranks_) throw Error("the job has too few ranks for " + std::to_string(n));
        if (rank_ >= n) return;
        auto& world = worlds_[n];
        if (!world) world = make(n);
        try {
            world->run([&](auto& rank) {
                Placed link(rank.transport(), placement);
                gx::testing::RankWithTransport placed(rank, link);
                gx::testing::detail::run_as_any(placed, f);
            });
        } catch (const Error&) {  // the reports of the ranks show it
            world.reset();
        }
    }
    [[nodiscard]] std::unique_ptr<mpi::World<>> make(int n) const {
        MPI_Group all = MPI_GROUP_NULL, part = MPI_GROUP_NULL;
        MPI_Comm first = MPI_COMM_NULL;
        MPI_Comm_group(messages_.get(), &all);
        int range[1][3]{{0, n - 1, 1}};
        MPI_Group_range_incl(all, 1, range, &part);
        mpi::expect(MPI_Comm_create_group(messages_.get(), part, n, &first),
                    "MPI_Comm_create_group");
        MPI_Group_free(&all), MPI_Group_free(&part);
        // Ranks that wait for each other and for one that has returned meet the deadline.
        auto world = std::make_unique<mpi::World<>>(
            first, mpi::JobOptions{.deadline = std::chrono::seconds(10), .announce = false});
        MPI_Comm_free(&first);
        return world;
    }
    [[nodiscard]] std::vector<gx::testing::ByteVector> gather(Placement placement,
                                                              gx::testing::ByteVector mine) const {
        std::vector<int> sizes(static_cast<std::size_t>(ranks_)), begins(sizes.size());
        const int size = static_cast<int>(mine.size());
        MPI_Request request = MPI_REQUEST_NULL;
        MPI_Iallgather(&size, 1, MPI_INT, sizes.data(), 1, MPI_INT, messages_.get(), &request);
        mpi::complete(request, "MPI_Iallgather", std::chrono::minutes(2));
        std::exclusive_scan(sizes.begin(), sizes.end(), begins.begin(), 0);
        gx::testing::ByteVector all(static_cast<std::size_t>(begins.back() + sizes.back()));
        MPI_Iallgatherv(mine.data(), size, MPI_BYTE, all.data(), sizes.data(), begins.data(),
                        MPI_BYTE, messages_.get(), &request);
        mpi::complete(request, "MPI_Iallgatherv", std::chrono::minutes(2));
        std::vector<gx::testing::ByteVector> ranks(static_cast<std::size_t>(placement.ranks()));
        for (std::size_t r = 0; r < ranks.size(); ++r)
            ranks[r].assign(all.begin() + begins[r], all.begin() + begins[r] + sizes[r]);
        return ranks;
    }

    mpi::Duplicate messages_;
    int rank_ = 0, ranks_ = 0;
    std::map<int, std::unique_ptr<mpi::World<>>> worlds_{};  ///< by rank count
};

/// MPI's own collective: within the bound of its roundings of the exact mean, and equal on all
/// ranks, which the ranks' words show.
template <Element E>
std::string native(mpi::World<>& world) {
    constexpr std::int64_t count = 5000;
    const auto row = static_cast<std::size_t>(world.first_local_rank());
    std::string text;
    const auto integers = gx::testing::small_integers(1, world.ranks(), count);
    const auto wide = gx::testing::wide_magnitudes(2, world.ranks(), count);
    std::uint64_t hash = 14695981039346656037u;
    for (const Rows& rows : {integers, wide}) {
        std::vector<float> mine = rows[row];
        world.run([&](auto& rank) {
            mpi::AllReduce<E> reducer;
            reducer.reserve(ReducePlan::whole(world.placement(), count));
            const ReduceReport report = reducer.all_reduce(rank.transport(), Bucket(mine));
            if (!report.complete()) text += "incomplete; ";
        });
        const std::vector<double> mean = gx::testing::column_means(rows);
        const double unit = std::same_as<E, fp32>   ? 0x1p-24
                            : std::same_as<E, fp16> ? 0x1p-11
                                                    : 0x1p-8;
        for (std::size_t i = 0; i < mine.size(); ++i) {
            double magnitude = 0;
            for (const auto& r : rows) magnitude += std::abs(double(r[i]));
            const double bound = (world.ranks() + 3) * unit * magnitude + 1e-6;
            if (std::abs(double(mine[i]) - mean[i]) > bound)
                text = "value " + std::to_string(i) + " is " + std::to_string(mine[i]) +
                       " in place of " + std::to_string(mean[i]);
            hash = (hash ^ std::bit_cast<std::uint32_t>(mine[i])) * 1099511628211u;
        }
    }
    if (!text.empty()) throw Error(mpi::AllReduce<E>::name() + ": " + text);
    return mpi::AllReduce<E>::name() + " " + std::to_string(hash);
}

/// Memory that the ranks of a machine share: SharedMemory on gradients in it, and elsewhere.
template <Element E>
std::string shared(mpi::World<>& world) {
    std::string text;
    const int ranks = world.ranks();
    for (const std::int64_t length : {1, 67, 4099}) {
        const auto rows = gx::testing::wide_magnitudes(3, ranks, length);
        std::vector<float> mean(static_cast<std::size_t>(length));
        ThreadWorld<>({.placement = world.placement()}).run([&](auto& rank) {
            std::vector<float> row = rows[static_cast<std::size_t>(rank.rank())];
            SharedMemory<E> reducer;
            reducer.reserve(ReducePlan::whole(world.placement(), length));
            (void)reducer.all_reduce(rank.transport(), Bucket(row));
            if (rank.rank() == 0) mean = row;
        });
        world.run([&](auto& rank) {
            auto& link = rank.transport();
            if (!link.shares_memory()) throw Error("ranks of one machine share no memory");
            Buffer<float> inside(shared_buffers(link), length, "inside");
            std::vector<float> outside = rows[static_cast<std::size_t>(rank.rank())];
            std::ranges::copy(outside, inside.view().begin());
            SharedMemory<E> reducer;
            reducer.reserve(ReducePlan::whole(world.placement(), length));
            for (const std::span<float> values : {inside.view(), std::span(outside)}) {
                const ReduceReport report = reducer.all_reduce(link, Bucket(values));
                if (!report.complete() || report.bytes_sent != 0) text += "messages; ";
                for (std::size_t i = 0; i < values.size(); ++i)
                    if (std::bit_cast<std::uint32_t>(values[i]) !=
                        std::bit_cast<std::uint32_t>(mean[i]))
                        text = "value " + std::to_string(i) + " differs; ";
            }
        });
    }
    return text.empty() ? "the bits of threads" : text;
}

/// What a reduction allocates on its thread once others have gone before it.
std::string allocations(mpi::World<>& world) {
    std::string text;
    world.run([&](auto& rank) {
        std::vector<float> values(1000, 1.0f);
        Bucketed<MultiRing<2, fp16>, 256> reducer;
        reducer.reserve(ReducePlan::whole(world.placement(), 1000));
        std::int64_t before = 0;
        for (std::uint64_t step = 0; step < 60; ++step) {
            if (step == 10) before = allocated;
            rank.transport().working_on({"all-reduce", static_cast<std::int64_t>(step), 0});
            Bucket bucket(values);
            bucket.gradient = step;
            if (!reducer.all_reduce(rank.transport(), bucket).complete()) text = "incomplete ";
        }
        text += std::to_string(allocated - before) + " allocations after " +
                (before > 0 ? "some" : "none");
    });
    return text;
}

/// What the interfaces of this rank's host carry of one reduction, beside the bytes of its report.
std::string wire(mpi::World<>& world) {
    using testing_support::interface_bytes;
    const int nodes = world.placement().machines;
    if (nodes != world.ranks()) return std::to_string(nodes) + (nodes == 1 ? " node" : " nodes");
    testing_support::InterfaceBytes carried;
    std::int64_t sent = 0;
    world.run([&](auto& rank) {
        std::vector<float> values(600'000, 1.0f);
        Ring<fp32> reducer;
        reducer.reserve(ReducePlan::whole(world.placement(), 600'000));
        (void)collective::barrier(rank.transport(), control_channel);
        const auto before = interface_bytes();
        const ReduceReport report = reducer.all_reduce(rank.transport(), Bucket(values));
        (void)collective::barrier(rank.transport(), control_channel);
        carried = interface_bytes() - before;
        sent = report.complete() ? report.bytes_sent : -1;
    });
    for (const std::int64_t bytes : {carried.sent, carried.received})
        if (sent <= 0 || bytes < sent || bytes > sent + sent / 4)
            return "the reducer sent " + std::to_string(sent) + " bytes, the interface carried " +
                   std::to_string(bytes);
    return std::to_string(nodes) + " nodes, and the interface carried the bytes of Ring<fp32>";
}

// ---- Training -----------------------------------------------------------------------------------

/// A reference device whose rank may fail.
class Mortal : public reference::Device {
public:
    static inline std::function<void(int rank, int step)> before_step{};
    Mortal(const Graph& graph, DeviceOptions options)
        : reference::Device(graph, options), rank_(options.rank) {}
    ForwardReport forward(const Batch& batch, Mode mode) {
        if (mode == Mode::train && before_step) before_step(rank_, ++step_);
        return reference::Device::forward(batch, mode);
    }

private:
    int rank_, step_ = 0;
};
using World = mpi::World<Mortal>;

/// A ring that skips a reduction, or makes it twice.
struct Careless : Ring<fp32> {
    static inline std::string careless{};
    int reductions = 0;
    ReduceReport all_reduce(gx::Transport auto& link, const Bucket& bucket) {
        const bool now = reductions++ == 3;
        if (now && careless == "skips") return {};
        if (now && careless == "repeats") (void)Ring::all_reduce(link, bucket);
        return Ring::all_reduce(link, bucket);
    }
    [[nodiscard]] static std::string name() { return "Careless"; }
};
using mpi_tests::Composition;
using mpi_tests::Late;
using mpi_tests::Shared;

/// A data set that counts the samples which this process reads.
class Counted {
public:
    explicit Counted(const Dataset& data) : data_(data) {}
    [[nodiscard]] SourceInfo info() const { return data_.info(); }
    [[nodiscard]] std::unique_ptr<SampleReader> open() const {
        return std::make_unique<Reader>(data_.open(), read_);
    }
    [[nodiscard]] std::int64_t read() const { return read_; }

private:
    struct Reader final : SampleReader {
        Reader(std::unique_ptr<SampleReader> of, std::atomic<std::int64_t>& read)
            : of_(std::move(of)), read_(read) {}
        void read(std::span<const std::uint32_t> indices, std::span<Sample> out) override {
            read_ += std::ssize(indices);
            of_->read(indices, out);
        }
        std::unique_ptr<SampleReader> of_;
        std::atomic<std::int64_t>& read_;
    };
    const Dataset& data_;
    mutable std::atomic<std::int64_t> read_ = 0;
};

struct CountsSteps final : Observer {
    std::size_t steps = 0;
    void step_done(const StepDone&) override { ++steps; }
};

/// Only rank 0 may write, and is observed: the other ranks' output would be below a file. Each rank
/// reads its share of the images.
std::string train(World& world, const std::filesystem::path& folder) {
    const Split data = testing_support::images();
    const Counted images(data.train);
    CountsSteps observer;
    Composition::Options options{.batch = 3, .epochs = 2, .seed = 3};
    const RunRecord expected = mpi_tests::elsewhere(Composition(options), world.placement(), data);
    options.output = is_root(world) ? folder / "output" : folder / "file" / "none";
    options.observers = {&observer};
    const RunRecord record =
        Composition(options).train(world, Sources{.train = images, .test = data.test});
    if (record.weights_hash != expected.weights_hash) return "other weights than threads";
    if (record.steps.size() != expected.steps.size()) return "another number of steps";
    if (observer.steps != (is_root(world) ? record.steps.size() : 0))
        return std::to_string(observer.steps) + " steps observed";
    const std::int64_t share = (data.train.count() + world.ranks() - 1) / world.ranks();
    if (images.read() < share - 1 || images.read() > options.epochs * share)
        return std::to_string(images.read()) + " images read";
    options.observers.clear();
    options.output.clear();
    options.resume = folder / "output" / "epoch-0001.safetensors";
    if (Composition(options).train(world, data).weights_hash != expected.weights_hash)
        return "other weights than threads, resumed";
    const auto as_elsewhere = [&](const auto& trainer) {
        return trainer.train(world, data).weights_hash ==
               mpi_tests::elsewhere(trainer, world.placement(), data).weights_hash;
    };
    if (!as_elsewhere(Late({.batch = 3, .seed = 3})))
        return "other weights than threads, double buffered";
    if (!as_elsewhere(Shared({.batch = 3, .seed = 3})))
        return "other weights than threads, in shared memory";
    return "the weights of threads and of a simulated cluster";
}

RunRecord train_long(World& world) {
    return Composition({.batch = 3, .epochs = 200, .seed = 3, .evaluate = false})
        .train(world, testing_support::images());
}

/// Kills this process after `ns`, wherever it is then. When that is goes to a file.
void kill_in(long ns, const std::string& folder) {
    const auto now = std::chrono::system_clock::now().time_since_epoch();
    std::ofstream(folder + "/killed_at")
        << std::to_string(std::chrono::duration<double>(now).count() + 1e-9 * double(ns));
    sigevent event{};
    event.sigev_notify = SIGEV_SIGNAL;
    event.sigev_signo = SIGKILL;
    timer_t timer{};
    const itimerspec when{.it_interval = {}, .it_value = {.tv_sec = 0, .tv_nsec = ns}};
    if (::timer_create(CLOCK_MONOTONIC, &event, &timer) != 0 ||
        ::timer_settime(timer, 0, &when, nullptr) != 0)
        std::abort();
}

/// Trains with a checkpoint behind each epoch, from the newest one that leaves something to do: it
/// must be whole, and none before it missing.
std::string life(const std::string& folder, World& world) {
    const Split data = testing_support::images();
    const Composition::Options plain{.batch = 1, .epochs = 4, .seed = 3};
    Composition::Options options = plain;
    options.output = folder + "/output";
    for (int epoch = 1, last = 0; epoch <= options.epochs; ++epoch) {
        const std::string file =
            folder + "/output/epoch-000" + std::to_string(epoch) + ".safetensors";
        if (!std::filesystem::exists(file)) continue;
        if (epoch < options.epochs) options.resume = file;  // what is done can't go on
        if (epoch != last + 1) return "the checkpoint before " + file + " is lost";
        last = epoch;
    }
    const std::uint64_t hash = Composition(options).train(world, data).weights_hash;
    const RunRecord expected = mpi_tests::elsewhere(Composition(plain), world.placement(), data);
    return hash == expected.weights_hash ? "the weights of threads" : "other weights than threads";
}
std::string life(const std::string& folder, std::chrono::seconds join_deadline) {
    World world({.join_deadline = join_deadline});
    return life(folder, world);
}

// ---- Modes --------------------------------------------------------------------------------------

/// As text; nullptr where there is no launcher.
const char* rank_of_launcher() {
    const char* rank = nullptr;
    for (const char* name : {"OMPI_COMM_WORLD_RANK", "PMI_RANK", "SLURM_PROCID"})
        if (rank == nullptr) rank = std::getenv(name);
    return rank;
}

/// What a rank does with the folder and the arguments behind the mode's name; returns its words.
using Mode = std::function<std::string(const std::string& folder, const Arguments&)>;

/// f(rank) on all processes of MPI.
template <class F>
std::string run(F f, mpi::JobOptions options = {}) {
    mpi::World<> world(std::move(options));
    world.run([&](auto& rank) { f(rank); });
    return "returned";
}

/// One message from rank 0 to rank 1, of these lengths and buckets.
std::string one_message(std::size_t sent, std::size_t received, int of_sent = 3,
                        int of_received = 3) {
    return run([&](auto& rank) {
        std::vector<std::byte> message(rank.rank() == 0 ? sent : received);
        const int bucket = rank.rank() == 0 ? of_sent : of_received;
        mpi::Transport link = gx::in_operation(rank.transport(), {"all-reduce", 7, bucket});
        if (rank.rank() > 1) return;
        (void)link.wait(rank.rank() == 0 ? link.send(1, 0, message) : link.receive(0, 0, message));
    });
}

const std::map<std::string, int> levels{{"single", MPI_THREAD_SINGLE},
                                        {"funneled", MPI_THREAD_FUNNELED},
                                        {"serialized", MPI_THREAD_SERIALIZED},
                                        {"multiple", MPI_THREAD_MULTIPLE}};

/// Initialises MPI, as a program does that has it for itself; returns all its processes.
MPI_Comm in_mpi(int level) {
    int given = 0;
    mpi::expect(MPI_Init_thread(nullptr, nullptr, level, &given), "MPI_Init_thread");
    (void)std::atexit([] { (void)MPI_Finalize(); });
    return MPI_COMM_WORLD;
}

/// Messages to the next rank around multiples of 1000 bytes, of which pieces are made.
std::string in_pieces() {
    mpi::World<> world({.piece_bytes = 1000});
    std::string text = "the same bytes";
    world.run([&](auto& rank) {
        mpi::Transport& link = rank.transport();
        for (const std::size_t bytes : {0u, 999u, 1000u, 1001u, 2000u, 123'456u}) {
            std::vector<std::byte> out(bytes), in(bytes);
            for (std::size_t i = 0; i < bytes; ++i) out[i] = std::byte(i * 7 + i / 251);
            const int to = (rank.rank() + 1) % rank.ranks(),
                      from = (rank.rank() + rank.ranks() - 1) % rank.ranks();
            const Request r = link.receive(from, 0, in), s = link.send(to, 0, out);
            if (!link.wait(r).complete() || !link.wait(s).complete() || in != out)
                text = "other bytes";
        }
    });
    return text;
}

const std::map<std::string, Mode> modes{
    {"reductions",
     [](const std::string&, const Arguments&) {
         mpi::World<> world;
         return reductions(world);
     }},
    {"wire",
     [](const std::string&, const Arguments&) {
         mpi::World<> world;
         return wire(world);
     }},
    {"levels",
     [](const std::string&, const Arguments&) {
         mpi::World<> world({.join_deadline = std::chrono::seconds(20)});
         return mpi_tests::levels(world);
     }},
    {"last_leaves",
     [](const std::string&, const Arguments&) {
         mpi::World<> world({.deadline = std::chrono::minutes(10)});
         return mpi_tests::last_rank_leaves(world);
     }},
    {"native",
     [](const std::string&, const Arguments&) {
         mpi::World<> world({.piece_bytes = 2000});  // of 5000 values
         return native<fp32>(world) + ", " + native<fp16>(world) + ", " + native<bf16>(world);
     }},
    {"shared",  // CORES that rank 1 is told
     [](const std::string&, const Arguments& a) {
         if (std::string_view(rank_of_launcher()) == "1") cores_told = number(a, 0, 0);
         mpi::World<> world({.deadline = std::chrono::seconds(5)});
         return shared<fp32>(world) + ", " + shared<bf16>(world);
     }},
    {"cores",
     [](const std::string&, const Arguments&) {
         bool is_share = coordination::process_cores() == 0;
         {
             mpi::World<> world;
             const auto tells = [&] { return coordination::process_cores() == world.cores(); };
             is_share = is_share && world.cores() > 0 && tells();
             {
                 const mpi::World<> alone(MPI_COMM_SELF, {.announce = false});
             }
             is_share = is_share && tells();
         }
         is_share = is_share && coordination::process_cores() == 0;
         return std::string(is_share ? "the share of each rank" : "another number");
     }},
    {"killed_sharing",  // RANK: while it works on all ranks' memory
     [](const std::string&, const Arguments& a) {
         return run([&](auto& rank) {
             int mine = 0;
             rank.transport().working_on({"all-reduce", 7, 3});
             const auto memory = std::as_writable_bytes(std::span(&mine, 1));
             const Delivery d = rank.transport().share(0, memory, [&](auto) {
                 if (rank.rank() == number(a, 0, 0)) (void)::raise(SIGKILL);
             });
             if (!d.complete())
                 throw LostRank(
                     {.rank = rank.rank(), .step = 7, .bucket = 3, .operation = "all-reduce"}, d);
         });
     }},
    {"train",  // LEVEL user: of a program that initialises MPI itself
     [](const std::string& folder, const Arguments& a) {
         const int level = levels.at(a.empty() ? "multiple" : a[0]);
         const MPI_Comm all = a.size() > 1 ? in_mpi(level) : MPI_COMM_WORLD;
         World world(all, {.thread_level = level});
         return train(world, folder);
     }},
    {"level",  // LEVEL that MPI is asked for
     [](const std::string&, const Arguments& a) {
         std::string text;
         {
             mpi::World<> world({.piece_bytes = 2000, .thread_level = levels.at(a.at(0))});
             text = native<fp32>(world) + ", " + reductions(world, "MultiRing<") + "; " +
                    world.info().notes.back();
         }
         return (calls::by_others == 0 ? "one thread has called MPI: " : "threads: ") + text;
     }},
    {"throw",  // RANK: in step 4
     [](const std::string&, const Arguments& a) {
         Mortal::before_step = [&](int rank, int step) {
             if (rank == number(a, 0, 0) && step == 4) throw Error("the disk is full");
         };
         World world;
         return "hash " + std::to_string(train_long(world).weights_hash);
     }},
    {"terms",  // SEED of rank 1
     [](const std::string&, const Arguments& a) {
         World world;
         const auto seed =
             static_cast<std::uint64_t>(world.first_local_rank() == 1 ? number(a, 0, 1) : 3);
         (void)Composition({.batch = 3, .seed = seed}).train(world, testing_support::images());
         return std::string("trained");
     }},
    {"bucket",  // WHAT rank 1 does with its fourth reduction, of step 3
     [](const std::string&, const Arguments& a) {
         if (std::string_view(rank_of_launcher()) == "1") Careless::careless = a.at(0);
         World world({.deadline = std::chrono::seconds(20)});
         using T = Trainer<testing_support::Net, Careless, Constant>;
         (void)T({.batch = 2, .epochs = 4}).train(world, testing_support::images());
         return std::string("trained");
     }},
    {"buckets",  // SENT RECEIVED: of step 7
     [](const std::string&, const Arguments& a) {
         return one_message(64, 64, number(a, 0, 0), number(a, 1, 0));
     }},
    {"lengths",  // SENT RECEIVED
     [](const std::string&, const Arguments& a) {
         return one_message(static_cast<std::size_t>(number(a, 0, 0)),
                            static_cast<std::size_t>(number(a, 1, 0)));
     }},
    {"left",  // rank 0 returns, and rank 1 waits for a message of it, long before its deadline
     [](const std::string&, const Arguments&) {
         return run(
             [](auto& rank) {
                 if (rank.rank() == 0) return;
                 float value = 0;
                 const Delivery d = rank.transport().wait(
                     rank.transport().receive(0, 0, std::as_writable_bytes(std::span(&value, 1))));
                 throw Error("rank " + std::to_string(d.peer) + " " + std::string(reason(d)));
             },
             {.deadline = std::chrono::minutes(10)});
     }},
    {"late",  // RANK: the one whose wait for the other meets its deadline first
     [](const std::string&, const Arguments& a) {
         const bool first = std::atoi(rank_of_launcher()) == number(a, 0, 0);
         return run(
             [](auto& rank) {
                 float value = 0;
                 const auto bytes = std::as_writable_bytes(std::span(&value, 1));
                 // Rank 0 waits for rank 1's next message, which follows what rank 0 never sends.
                 const Delivery d = rank.transport().wait(
                     rank.transport().receive(1 - rank.rank(), rank.rank(), bytes));
                 throw LostRank({.rank = rank.rank(), .step = 2, .operation = "waiting"}, d);
             },
             {.deadline = std::chrono::milliseconds(first ? 300 : 20'000)});
     }},
    {"collective",  // all reduce by MPI's own collective, but rank 1, which waits for rank 0
     [](const std::string&, const Arguments&) {
         const bool waits = std::string_view(rank_of_launcher()) == "1";
         return run(
             [&](auto& rank) {
                 std::vector<float> values(8, 1.0f);
                 const auto bytes = std::as_writable_bytes(std::span(values));
                 const Operation doing{waits ? "waiting" : "all-reduce", 2};
                 rank.transport().working_on(doing);
                 mpi::AllReduce<fp32> reducer;
                 reducer.reserve(ReducePlan::whole({1, rank.ranks()}, 8));
                 const Delivery d =
                     waits ? rank.transport().wait(rank.transport().receive(0, 0, bytes))
                           : reducer.all_reduce(rank.transport(), Bucket(values)).delivery;
                 throw LostRank({.rank = rank.rank(),
                                 .step = 2,
                                 .operation = waits ? "waiting" : "all-reduce"},
                                d);
             },
             {.deadline = std::chrono::milliseconds(waits ? 20'000 : 300)});
     }},
    {"early",  // rank 1 does not call run()
     [](const std::string&, const Arguments&) {
         mpi::World<> world;
         if (world.first_local_rank() == 1) return std::string("left");
         world.run([](auto&) {});
         return std::string("returned");
     }},
    {"absent",  // IN: rank 1 makes no world, and stays: the others are in IN then
     [](const std::string&, const Arguments& a) {
         if (std::string_view(rank_of_launcher()) == "1") {
             if (a.at(0) != "MPI_Init_thread") (void)mpi::start_library();
             std::deque<mpi::Duplicate> duplicates;
             if (a.at(0) == "MPI_Comm_split_type")
                 for (int i = 0; i < mpi::Messages::channels_that_tell_buckets + 2; ++i)
                     duplicates.emplace_back(i == 0 ? MPI_COMM_WORLD : duplicates[0].get(),
                                             std::chrono::minutes(1));
             (void)::prctl(PR_SET_PDEATHSIG, SIGKILL);
             std::this_thread::sleep_for(std::chrono::minutes(1));
             return std::string("stayed");
         }
         return run([](auto&) {}, {.join_deadline = std::chrono::seconds(1)});
     }},
    {"phase",  // WHEN: rank 1 dies before the first run or after the last one
     [](const std::string& folder, const Arguments& a) {
         mpi::World<> world;
         const bool dies = world.first_local_rank() == 1;
         if (dies && a.at(0) == "before") (void)::raise(SIGKILL);
         world.run([](auto&) {});
         if (dies) (void)::raise(SIGKILL);
         // Now: the launcher may end this process before its world has ended.
         std::ofstream(folder + "/" + rank_of_launcher()) << "returned";
         return std::string("returned");
     }},
    {"meeting_is_ended",  // WHEN: by the launcher's signal, which this process gives itself
     [](const std::string&, const Arguments& a) {
         const mpi::MeetingGuard guard(a.at(0) + " " + a.at(1) + " " + a.at(2));
         (void)::raise(SIGTERM);
         return std::string("went on");
     }},
    {"inside",  // a world is made, and runs, in the run of another one
     [](const std::string&, const Arguments&) {
         const auto watches = [] {
             int signal = 0;
             struct sigaction terminate{}, abort{};
             (void)::prctl(PR_GET_PDEATHSIG, &signal);
             (void)::sigaction(SIGTERM, nullptr, &terminate);
             (void)::sigaction(SIGABRT, nullptr, &abort);
             return "signal " + std::to_string(signal) +
                    (terminate.sa_handler != SIG_DFL && abort.sa_handler != SIG_DFL
                         ? ", handled"
                         : ", not handled");
         };
         std::string text = watches();
         mpi::World<> outer;
         outer.run([&](auto&) {
             text += "; " + watches();
             mpi::World<> inner(MPI_COMM_SELF, {.announce = false});
             inner.run([](auto&) {});
             text += "; " + watches();
         });
         return text + "; " + watches();
     }},
    {"allocations",
     [](const std::string&, const Arguments&) {
         mpi::World<> world;
         return allocations(world);
     }},
    {"again",  // run() after a rank has thrown
     [](const std::string&, const Arguments&) {
         mpi::World<> world;
         std::string first;
         try {
             world.run([](auto& rank) {
                 if (rank.rank() == 0) throw Error("the first error");
             });
         } catch (const Error& e) {
             first = e.what();
         }
         try {
             world.run([](auto&) {});
         } catch (const Error& e) {
             return first + " | " + e.what();
         }
         return std::string("ran again");
     }},
    {"pieces", [](const std::string&, const Arguments&) { return in_pieces(); }},
    {"channel",
     [](const std::string&, const Arguments&) {
         return run([](auto& rank) { (void)rank.transport().send(0, -1, {}); });
     }},
    {"life",  // RANK STEP NS: that dies NS after it begins STEP; 0: after it begins
     [](const std::string& folder, const Arguments& a) {
         const int dead = number(a, 0, -1), in_step = number(a, 1, 0), ns = number(a, 2, 0);
         if (in_step == 0 && std::to_string(dead) == rank_of_launcher()) kill_in(ns, folder);
         Mortal::before_step = [=](int rank, int step) {
             if (rank == dead && step == in_step) kill_in(ns, folder);
         };
         return life(folder, std::chrono::seconds(dead >= 0 && in_step == 0 ? 10 : 60));
     }},
    {"dies",  // a rank of each of the first three attempts, in its step 6; leaves a file when done
     [](const std::string& folder, const Arguments&) {
         int attempt = 0;
         std::ifstream(folder + "/attempt") >> attempt;
         World world;  // every rank has read it
         if (is_root(world)) std::ofstream(folder + "/attempt") << attempt + 1;
         Mortal::before_step = [=, n = world.ranks()](int rank, int step) {
             if (attempt < 3 && rank == attempt % n && step == 6) (void)::raise(SIGKILL);
         };
         const std::string text = life(folder, world);
         if (is_root(world)) std::ofstream(folder + "/done") << text;
         return text;
     }},
    {"few",  // images: fewer than ranks
     [](const std::string&, const Arguments&) {
         World world;
         (void)Composition({.batch = 1}).train(world, testing_support::images(2));
         return std::string("trained");
     }},
    {"composition",  // another one on rank 1, as of another build
     [](const std::string&, const Arguments&) {
         World world;
         if (world.first_local_rank() == 1)
             (void)Late({.batch = 3}).train(world, testing_support::images());
         else (void)Composition({.batch = 3}).train(world, testing_support::images());
         return std::string("trained");
     }},
    {"resume",  // HOW checkpoints differ: weights; over: rank 0's run is, and rank 1 has none
     [](const std::string& folder, const Arguments& a) {
         World world;
         const bool over = a.at(0) == "over";
         const int rank = world.first_local_rank();
         Composition::Options options{.batch = 3, .epochs = 1, .seed = 5};
         options.output = folder + "/of-" + std::to_string(rank);
         if (!over || rank == 0) {
             Composition::Options other = options;
             other.scheduler.next.peak_rate = rank == 0 ? 0.1f : 0.2f;
             ThreadWorld<reference::Device> threads({.placement = {world.ranks(), 1}});
             (void)Composition(other).train(threads, testing_support::images());
         }
         options.epochs = over ? 1 : 2;
         options.resume = "latest";
         (void)Composition(options).train(world, testing_support::images());
         return std::string("trained");
     }},
    {"output",  // HOW rank 0's output is in the way: none (its folder is a file), full (the disk)
     [](const std::string& folder, const Arguments& a) {
         World world;
         Composition::Options options{.batch = 3, .epochs = 2};
         options.output = folder + (a.at(0) == "none" ? "/file/none" : "/output");
         if (a.at(0) == "full" && is_root(world)) {
             const rlimit most{.rlim_cur = 100, .rlim_max = RLIM_INFINITY};
             (void)::signal(SIGXFSZ, SIG_IGN);
             if (::setrlimit(RLIMIT_FSIZE, &most) != 0) std::abort();
         }
         const auto lift = [] {
             const rlimit none{.rlim_cur = RLIM_INFINITY, .rlim_max = RLIM_INFINITY};
             (void)::setrlimit(RLIMIT_FSIZE, &none);
         };
         try {
             (void)Composition(options).train(world, testing_support::images());
         } catch (const Error&) {
             lift();  // the rank's words go to a file
             throw;
         }
         lift();
         return std::string("trained");
     }},
    {"conformance",  // PART of the reducers' names
     [](const std::string&, const Arguments& a) {
         Worlds worlds(in_mpi(MPI_THREAD_MULTIPLE));
         int reducers = 0;
         const std::string text =
             mpi_tests::check_conformance(worlds.any(), a.empty() ? "" : a[0], reducers);
         return std::to_string(reducers) + " reducers\n" + text;
     }},
    {"bugs",
     [](const std::string&, const Arguments&) {
         Worlds worlds(in_mpi(MPI_THREAD_MULTIPLE));
         return mpi_tests::check_seeded_bugs(worlds.any());
     }},
    {"user",  // LEVEL: MPI of the program, and a world on a part of its processes
     [](const std::string&, const Arguments& a) {
         int rank = 0;
         (void)in_mpi(levels.at(a.at(0)));
         MPI_Comm_rank(MPI_COMM_WORLD, &rank);
         MPI_Comm part = MPI_COMM_NULL;
         MPI_Comm_split(MPI_COMM_WORLD, rank == 2 ? 1 : 0, -rank, &part);  // {1, 0} and {2}
         std::string text;
         try {
             mpi::World<> world(part);
             text = "rank " + std::to_string(world.first_local_rank()) + " of " +
                    std::to_string(world.ranks()) + ": " + reductions(world);
         } catch (const Error& e) {
             text = e.what();
         }
         return text;
     }},
    {"exits", [](const std::string&, const Arguments& a) { return mpi_tests::exits(a.at(0)); }},
    {"out_of_files", [](const std::string& folder,
                        const Arguments& a) { return mpi_tests::out_of_files(a.at(0), folder); }},
    {"dies_at_exit",
     [](const std::string&, const Arguments& a) { return mpi_tests::dies_at_exit(a.at(0)); }},
    {"threads", [](const std::string&, const Arguments&) { return mpi_tests::ends_in_threads(); }},
    {"mixed",
     [](const std::string&, const Arguments&) {
         return mpi_tests::one_ends_mpi(std::string_view(rank_of_launcher()) == "0");
     }},
    {"throws_beside",
     [](const std::string&, const Arguments&) { return mpi_tests::throws_beside_a_world(); }},
    {"recovers", [](const std::string&, const Arguments&) { return mpi_tests::recovers(); }},
    {"finalizes", [](const std::string&, const Arguments&) { return mpi_tests::finalizes(); }},
    {"forks", [](const std::string&, const Arguments&) { return mpi_tests::forks(); }},
    {"forks_in_a_run",
     [](const std::string&, const Arguments&) { return mpi_tests::forks_in_a_run(); }},
    {"runs_finalized",
     [](const std::string&, const Arguments& a) {
         return mpi_tests::runs_finalized(a.at(0) == "all");
     }},
    {"lacks_threads",
     [](const std::string&, const Arguments& a) { return mpi_tests::lacks_threads(a.at(0)); }},
    {"signalled",
     [](const std::string&, const Arguments&) { return mpi_tests::signalled_at_the_end(); }},
    {"small_files",
     [](const std::string&, const Arguments&) { return mpi_tests::with_small_files(); }},
    {"in_itself", [](const std::string&, const Arguments&) { return mpi_tests::runs_in_itself(); }},
    {"communicator",
     [](const std::string&, const Arguments& a) { return mpi_tests::of_communicator(a.at(0)); }},
    {"host",  // NAME of rank 0's host
     [](const std::string&, const Arguments& a) {
         return run([](auto&) {}, {.join_deadline = std::chrono::seconds(5), .host = a.at(0)});
     }},
    {"endless",  // no deadline ever comes
     [](const std::string&, const Arguments&) {
         constexpr auto longest = std::chrono::nanoseconds::max();
         mpi::World<> world({.deadline = longest, .join_deadline = longest, .patience = longest});
         world.run([](auto&) {});
         world.run([](auto&) {});
         return std::string("returned");
     }},
    {"info",
     [](const std::string&, const Arguments&) {
         mpi::World<> world;
         std::string text = world.info().world;
         for (const std::string& note : world.info().notes) text += "; " + note;
         return text;
     }},
};

}  // namespace

int main(int count, char** arguments) {
    const Arguments all(arguments + 1, arguments + count);
    if (all.size() < 2 || !modes.contains(all[0])) return 2;
    const char* const rank = rank_of_launcher();
    std::string text;
    int status = 0;
    try {
        text = modes.at(all[0])(all[1], {all.begin() + 2, all.end()});
    } catch (const std::exception& e) {
        text = e.what();
        status = 1;
    }
    std::ofstream(all[1] + "/" + (rank == nullptr ? "none" : rank)) << text;
    return status;
}
