// Bodies of checkpoint_writer.hpp.
#pragma once

#include <algorithm>     // upper_bound
#include <cmath>         // isnan
#include <exception>     // whatever is thrown
#include <system_error>  // error_code
#include <utility>       // move

#include <gx/core/contract.hpp>  // GX_EXPECT
#include <gx/trainer/monitor/checkpoint_writer.hpp>

namespace gx::detail::trainer {

GX_DECL std::vector<KeptCheckpoint> to_delete(const std::vector<KeptCheckpoint>& all, int keep) {
    std::vector<KeptCheckpoint> out;
    if (keep == 0) return out;
    std::optional<std::size_t> best;
    for (std::size_t i = 0; i < all.size(); ++i) {
        const auto accuracy = all[i].test_accuracy_pct;
        if (!accuracy || std::isnan(*accuracy)) continue;
        if (!best || *accuracy >= *all[*best].test_accuracy_pct) best = i;
    }
    for (std::size_t i = 0; i + std::size_t(keep) < all.size(); ++i)
        if (i != best) out.push_back(all[i]);
    return out;
}

GX_DECL EarlierCheckpoints checkpoints_of(const std::filesystem::path& folder, std::int64_t step,
                                          const RunRecord& record, bool tested) {
    EarlierCheckpoints out;
    std::vector<std::filesystem::directory_entry> files;
    try {
        files = checkpoint_files(folder);
    } catch (const Error&) {  // a folder that can't be listed has none that can be deleted
    }
    for (const auto& entry : files) {
        std::error_code gone;  // by another hand
        const auto of = checkpoint_number(entry.path().filename().string());
        if (!of || !entry.is_regular_file(gone)) continue;
        if (of->of_epoch && of->number > std::ssize(record.epochs)) continue;
        KeptCheckpoint one{.file = entry.path(), .step = of->number};
        if (of->of_epoch) {
            const EpochRow& row = record.epochs[std::size_t(of->number) - 1];
            one.step = row.step;
            if (tested) one.test_accuracy_pct = row.test_accuracy_pct;
        }
        auto& all = one.step > step ? out.behind : out.before;
        const auto later = std::ranges::upper_bound(all, one.step, {}, &KeptCheckpoint::step);
        all.insert(later, std::move(one));
    }
    return out;
}

GX_DECL CheckpointWriter::CheckpointWriter(const Graph& graph, int keep)
    : graph_(&graph), keep_(keep) {}

GX_DECL CheckpointWriter::~CheckpointWriter() {
    if (!has_begun()) return;
    {
        const std::scoped_lock lock(mutex_);
        ends_ = true;
    }
    changed_.notify_all();
    thread_.join();
}

GX_DECL void CheckpointWriter::begin(EarlierCheckpoints earlier,
                                     const std::filesystem::path& resumed_from) {
    kept_ = std::move(earlier.before);
    behind_ = std::move(earlier.behind);
    for (const KeptCheckpoint& old : to_delete(kept_, keep_)) {
        std::error_code gone;
        if (!std::filesystem::equivalent(old.file, resumed_from, gone)) remove(old);
    }
    thread_ = std::thread([this] { work(); });
}

GX_DECL void CheckpointWriter::write(Checkpoint checkpoint, KeptCheckpoint as) {
    GX_EXPECT(has_begun(), "the writer's thread takes what is written");
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return !next_; });
    next_.emplace(std::move(checkpoint), std::move(as));
    changed_.notify_all();
}

GX_DECL void CheckpointWriter::finish() {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return !next_ && !busy_; });
}

GX_DECL std::vector<CheckpointWriter::News> CheckpointWriter::take_news() {
    const std::scoped_lock lock(mutex_);
    has_news_ = false;
    return std::exchange(news_, {});
}

GX_DECL void CheckpointWriter::work() {
    std::unique_lock lock(mutex_);
    for (;;) {
        changed_.wait(lock, [&] { return next_ || ends_; });
        if (!next_) return;
        const Job job = *std::exchange(next_, std::nullopt);
        busy_ = true;
        changed_.notify_all();
        lock.unlock();
        News news = write_one(job);
        lock.lock();
        news_.push_back(std::move(news));
        has_news_.store(true, std::memory_order_release);
        busy_ = false;
        changed_.notify_all();
    }
}

GX_DECL CheckpointWriter::News CheckpointWriter::write_one(const Job& job) {
    News news{.file = job.as.file, .step = job.as.step};
    try {
        write_checkpoint(job.as.file, *graph_, job.checkpoint);
        const auto is_new = [name = job.as.file.filename()](const KeptCheckpoint& k) {
            return k.file.filename() == name;  // all are of one folder
        };
        std::erase_if(kept_, is_new);
        std::erase_if(behind_, is_new);
        kept_.push_back(job.as);
        for (const KeptCheckpoint& old : to_delete(kept_, keep_)) remove(old);
        while (keep_ > 0 && !behind_.empty() && behind_.front().step <= job.as.step)
            remove(KeptCheckpoint(behind_.front()));
    } catch (const std::exception& e) {
        news.error = e.what();
    }
    return news;
}

GX_DECL void CheckpointWriter::remove(const KeptCheckpoint& old) {
    std::error_code gone;  // by another hand
    std::filesystem::remove(old.file, gone);
    std::erase(kept_, old);
    std::erase(behind_, old);
}

}  // namespace gx::detail::trainer
