// CheckpointWriter: writes checkpoints beside training, and deletes those that are not kept.
#pragma once

#include <atomic>              // news
#include <condition_variable>  // waits
#include <cstdint>             // int64_t
#include <filesystem>          // files
#include <mutex>               // one lock
#include <optional>            // what is queued
#include <string>              // errors
#include <thread>              // the writer
#include <vector>              // files

#include <gx/core/cold.hpp>           // GX_COLD
#include <gx/core/decl.hpp>           // GX_DECL
#include <gx/trainer/checkpoint.hpp>  // Checkpoint
#include <gx/trainer/record.hpp>      // RunRecord

namespace gx {

struct Graph;

namespace detail::trainer {

/// A checkpoint of this run that is whole on disk.
struct KeptCheckpoint {
    std::filesystem::path file{};
    std::int64_t step = 0;
    std::optional<double> test_accuracy_pct{};  ///< none within an epoch, or without a test
    bool operator==(const KeptCheckpoint&) const = default;
};

/// Those of `all`, in the order of writing, that are to be deleted: all but the newest `keep` and
/// the best by test accuracy, of equal ones the newest. `keep` 0: none.
[[nodiscard]] GX_COLD GX_DECL std::vector<KeptCheckpoint> to_delete(
    const std::vector<KeptCheckpoint>& all, int keep);

/// Checkpoints of earlier parts of a run; in the order of steps.
struct EarlierCheckpoints {
    std::vector<KeptCheckpoint> before{};  ///< the step at which the present part begins, or at it
    std::vector<KeptCheckpoint> behind{};  ///< that step: the present part does those steps anew
};

/// The checkpoints in a folder that a run which goes on at `step` has. They are known by their
/// names, with the accuracies of its record where its epochs are `tested`; of epochs, those in the
/// record.
[[nodiscard]] GX_COLD GX_DECL EarlierCheckpoints checkpoints_of(const std::filesystem::path& folder,
                                                                std::int64_t step,
                                                                const RunRecord& record,
                                                                bool tested);

/// Writes the checkpoints of a run on a thread of its own. Those of all its worlds come one after
/// the other. The thread is there from the first on, so that a process may fork before.
///
/// Errors: of a file that can't be written: a sentence in take_news(). What was there before, and
///         all other checkpoints that are kept, stay as they are.
/// Threads: one writes and takes news.
/// Cost:   holds at most three checkpoints: one that is written, one that waits, and that of a
///         write(), which waits while another one does.
class CheckpointWriter {
public:
    /// `keep`: as CheckpointOptions has it.
    GX_COLD GX_DECL CheckpointWriter(const Graph& graph, int keep);
    CheckpointWriter(const CheckpointWriter&) = delete;
    CheckpointWriter& operator=(const CheckpointWriter&) = delete;
    /// Waits until all are written.
    GX_COLD GX_DECL ~CheckpointWriter();

    [[nodiscard]] bool has_begun() const { return thread_.joinable(); }
    /// Before the first: deletes at once what is not kept of the parts before, as a full disk may
    /// have no room for another one; `resumed_from` stays until the next is written.
    GX_COLD GX_DECL void begin(EarlierCheckpoints earlier,
                               const std::filesystem::path& resumed_from);
    GX_COLD GX_DECL void write(Checkpoint checkpoint, KeptCheckpoint as);
    /// Waits until all are written.
    GX_COLD GX_DECL void finish();

    struct News {
        std::filesystem::path file{};
        std::int64_t step = 0;
        std::string error{};  ///< empty: it is whole on disk
    };
    [[nodiscard]] bool has_news() const { return has_news_.load(std::memory_order_acquire); }
    GX_COLD [[nodiscard]] GX_DECL std::vector<News> take_news();

private:
    struct Job {
        Checkpoint checkpoint;
        KeptCheckpoint as;
    };
    GX_COLD void work();
    GX_COLD [[nodiscard]] News write_one(const Job& job);
    GX_COLD void remove(const KeptCheckpoint& old);

    const Graph* graph_;
    int keep_;
    std::vector<KeptCheckpoint> kept_{}, behind_{};  ///< of the writer's thread, once it has begun
    std::mutex mutex_{};
    std::condition_variable changed_{};
    std::optional<Job> next_{};
    bool busy_ = false, ends_ = false;
    std::vector<News> news_{};
    std::atomic<bool> has_news_ = false;
    std::thread thread_{};
};

}  // namespace detail::trainer

}  // namespace gx

#if defined(GX_HEADER_ONLY)
#include <gx/trainer/monitor/impl/checkpoint_writer.ipp>
#endif
