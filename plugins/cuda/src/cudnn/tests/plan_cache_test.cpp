// Plans that are kept in a file: whole, damaged, foreign, and by several at once.
#include "../plan_cache.hpp"

#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <gx/io/read_file.hpp>
#include <support/files.hpp>

namespace {

using gx::cuda::detail::PlanCache;
namespace fs = std::filesystem;

const std::string identity = "cudnn-91900-a-GPU-sm_90-132";

std::string bytes_of(const fs::path& file) { return gx::read_file(file); }
void put(const fs::path& file, const std::string& bytes) {
    std::ofstream(file, std::ios::binary) << bytes;
}
/// A file of two plans, one of them empty.
std::string two_plans(const fs::path& file) {
    PlanCache cache(file, identity);
    cache.keep(7, "seven\n");
    cache.keep(8, "");
    cache.save();
    EXPECT_EQ(cache.warning(), "");
    return bytes_of(file);
}
int found(const PlanCache& cache) {
    int count = 0;
    for (const std::uint64_t key : {7, 8}) {
        const std::string* const plan = cache.find(key);
        if (plan == nullptr) continue;
        EXPECT_EQ(*plan, key == 7 ? "seven\n" : "");
        ++count;
    }
    return count;
}
std::size_t files_in(const fs::path& folder) {
    return std::size_t(std::distance(fs::directory_iterator(folder), {}));
}

TEST(PlanCache, FindsWhatAnEarlierRunHasKept) {
    const testing_support::Folder folder;
    const fs::path file = folder / "new" / "deeper" / "a.plans";
    (void)two_plans(file);
    PlanCache cache(file, identity);
    EXPECT_EQ(found(cache), 2);
    EXPECT_EQ(cache.find(9), nullptr);
    EXPECT_EQ(cache.warning(), "");
    EXPECT_EQ(files_in(file.parent_path()), 1u) << "no temporary file is left";
}
TEST(PlanCache, KeepsNothingWithoutAFile) {
    PlanCache cache;
    cache.keep(7, "seven");
    cache.save();
    EXPECT_EQ(cache.find(7), nullptr);
    EXPECT_EQ(cache.warning(), "");
}
TEST(PlanCache, IsWrittenOnlyWhereThereIsNews) {
    const testing_support::Folder folder;
    const fs::path file = folder / "a.plans";
    const std::string bytes = two_plans(file);
    fs::permissions(folder.path, fs::perms::owner_read | fs::perms::owner_exec);
    PlanCache cache(file, identity);
    cache.save();
    EXPECT_EQ(cache.warning(), "");
    fs::permissions(folder.path, fs::perms::owner_all);
}
TEST(PlanCache, EachSaverAddsToWhatOthersHaveSaved) {
    const testing_support::Folder folder;
    const fs::path file = folder / "a.plans";
    PlanCache a(file, identity), b(file, identity);
    a.keep(7, "seven\n");
    b.keep(8, "");
    a.save(), b.save();
    EXPECT_EQ(found(PlanCache(file, identity)), 2);
    EXPECT_EQ(found(a), 1) << "until it is read again";
}

// ---- Files that are not whole ------------------------------------------------------------------

/// Some are found, all are whole; then the file is repaired.
int found_in(const fs::path& file, const std::string& bytes) {
    put(file, bytes);
    PlanCache cache(file, identity);
    const int count = found(cache);
    EXPECT_NE(cache.warning().find(file.string()), std::string::npos) << cache.warning();
    EXPECT_NE(cache.warning().find("made anew"), std::string::npos) << cache.warning();
    cache.save();
    const PlanCache again(file, identity);
    EXPECT_EQ(again.warning(), "");
    EXPECT_EQ(found(again), count);
    return count;
}
TEST(PlanCache, TakesWholePlansOfAFileThatIsCutOff) {
    const testing_support::Folder folder;
    const fs::path file = folder / "a.plans";
    const std::string bytes = two_plans(file);
    int before = 0;
    for (std::size_t size = 0; size < bytes.size(); ++size) {
        const int count = found_in(file, bytes.substr(0, size));
        EXPECT_GE(count, before);
        EXPECT_LT(count, 2);
        before = count;
    }
    EXPECT_EQ(before, 1);
    EXPECT_EQ(found_in(file, bytes + "x"), 2);
}
TEST(PlanCache, TakesNoPlanThatHasChanged) {
    const testing_support::Folder folder;
    const fs::path file = folder / "a.plans";
    const std::string bytes = two_plans(file);
    const std::size_t count = bytes.find(identity) + identity.size() + 1;
    for (std::size_t i = 0; i < bytes.size(); ++i) {
        std::string changed = bytes;
        changed[i] = char(changed[i] ^ 1);
        EXPECT_LE(found_in(file, changed), i >= count && i < count + 8 ? 2 : 1) << i;
    }
}
TEST(PlanCache, IsOfOneGpuAndVersion) {
    const testing_support::Folder folder;
    const fs::path file = folder / "a.plans";
    std::string bytes = two_plans(file);
    const PlanCache other(file, "cudnn-91900-another-GPU-sm_90-132");
    EXPECT_EQ(found(other), 0);
    EXPECT_NE(other.warning().find("another version from byte 0 on"), std::string::npos);
    bytes[bytes.find('1')] = '2';
    EXPECT_EQ(found_in(file, bytes), 0) << "another format";
}
RC_GTEST_PROP(PlanCache, SurvivesAnyBytes, ()) {
    static const testing_support::Folder folder;
    const fs::path file = folder / "a.plans";
    const std::string bytes = two_plans(file);
    const auto at = *rc::gen::inRange<std::size_t>(0, bytes.size());
    const auto random = *rc::gen::arbitrary<std::string>();
    (void)found_in(file, random == bytes ? "" : random);
    std::string changed = bytes.substr(0, at) + random;  // as where a number of bytes is meant
    if (changed != bytes) RC_ASSERT(found_in(file, changed) <= 2);
    RC_ASSERT(!::testing::Test::HasFailure());
}

// ---- Folders and files that can't be written, or read ------------------------------------------

TEST(PlanCache, SaysOnceThatItCannotBeWritten) {
    const testing_support::Folder folder;
    const fs::path blocked = folder / "file";
    put(blocked, "not a folder");
    PlanCache cache(blocked / "gx" / "a.plans", identity);
    cache.keep(7, "seven\n");
    cache.save();
    EXPECT_NE(cache.warning().find("Set GX_CACHE to a folder that can be written, or to nothing"),
              std::string::npos)
        << cache.warning();
    EXPECT_EQ(found(cache), 1);
    const std::string first = cache.warning();
    cache.keep(8, "");
    cache.save();
    EXPECT_EQ(cache.warning(), first);
}
TEST(PlanCache, LeavesAReadOnlyFolderAsItIs) {
    if (::geteuid() == 0) GTEST_SKIP() << "root writes everywhere";
    const testing_support::Folder folder;
    const fs::path file = folder / "a.plans";
    const std::string bytes = two_plans(file);
    fs::permissions(folder.path, fs::perms::owner_read | fs::perms::owner_exec);
    PlanCache cache(file, identity);
    cache.keep(9, "nine");
    cache.save();
    EXPECT_NE(cache.warning(), "");
    fs::permissions(folder.path, fs::perms::owner_all);
    EXPECT_EQ(bytes_of(file), bytes);
}
TEST(PlanCache, TakesAFolderForNoFile) {
    const testing_support::Folder folder;
    fs::create_directories(folder / "a.plans" / "inside");
    PlanCache cache(folder / "a.plans", identity);
    EXPECT_NE(cache.warning(), "");
    cache.keep(7, "seven\n");
    cache.save();
    EXPECT_EQ(files_in(folder.path), 1u) << "no temporary file is left";
}
TEST(PlanCache, WaitsForNoWriterOfAPipe) {
    const testing_support::Folder folder;
    const fs::path file = folder / "a.plans";
    ASSERT_EQ(::mkfifo(file.c_str(), 0600), 0);
    PlanCache cache(file, identity);
    EXPECT_TRUE(testing_support::holds(cache.warning(), "is a pipe"));
    cache.keep(7, "seven\n");
    cache.save();
    PlanCache again(file, identity);
    EXPECT_EQ(found(again), 1);
    EXPECT_EQ(again.warning(), "");
}
TEST(PlanCache, IsWrittenAgainWhereItIsTooLarge) {
    const testing_support::Folder folder;
    const fs::path file = folder / "a.plans";
    put(file, "");
    fs::resize_file(file, PlanCache::bytes_most + 1);
    PlanCache cache(file, identity);
    EXPECT_NE(cache.warning(), "");
    cache.keep(7, "seven\n");
    cache.save();
    EXPECT_EQ(found(PlanCache(file, identity)), 1);
    PlanCache more(file, identity);
    more.keep(8, "");
    more.keep(9, std::string(PlanCache::bytes_most - 120, 'x'));
    more.save();
    const PlanCache last(file, identity);
    EXPECT_EQ(last.warning(), "");
    EXPECT_EQ(last.find(7), nullptr) << "of an earlier run";
    EXPECT_NE(last.find(9), nullptr);
}
/// Plans of exactly the most bytes are saved, with those of earlier runs.
TEST(PlanCache, HoldsTheMostBytes) {
    const testing_support::Folder folder;
    const fs::path file = folder / "a.plans";
    const auto save = [&](std::size_t bytes) {
        fs::remove(file);
        (void)two_plans(file);
        PlanCache more(file, identity);
        more.keep(9, std::string(bytes, 'x'));
        more.save();
        return fs::file_size(file) - bytes;
    };
    const std::size_t bytes = PlanCache::bytes_most - save(PlanCache::bytes_most - 1000);
    (void)save(bytes);
    EXPECT_EQ(fs::file_size(file), PlanCache::bytes_most);
    const PlanCache last(file, identity);
    EXPECT_EQ(found(last), 2) << "of an earlier run";
    EXPECT_NE(last.find(9), nullptr);
}
TEST(PlanCache, ReadersFindAWholeFileWhileOthersSave) {
    const testing_support::Folder folder;
    const fs::path file = folder / "a.plans";
    (void)two_plans(file);
    std::vector<std::thread> savers;
    for (std::uint64_t s = 0; s < 4; ++s)
        savers.emplace_back([&, s] {
            for (std::uint64_t i = 0; i < 20; ++i) {
                PlanCache cache(file, identity);
                EXPECT_EQ(found(cache), 2);
                EXPECT_EQ(cache.warning(), "");
                cache.keep(100 * (s + 1) + i, std::string(10'000, 'p'));
                cache.save();
                EXPECT_EQ(cache.warning(), "");
            }
        });
    for (std::thread& s : savers) s.join();
    EXPECT_EQ(files_in(folder.path), 1u);
    const PlanCache all(file, identity);
    for (std::uint64_t s = 1; s <= 4; ++s)
        for (std::uint64_t i = 0; i < 20; ++i) EXPECT_NE(all.find(100 * s + i), nullptr);
}
TEST(PlanCache, RemovesWhatKilledSaversHaveLeft) {
    const testing_support::Folder folder;
    const fs::path file = folder / "a.plans";
    const auto hours_ago = [](int hours) {
        return fs::file_time_type::clock::now() - std::chrono::hours(hours);
    };
    const auto leave = [&](const char* name, int hours) {
        put(folder / name, "x");
        fs::last_write_time(folder / name, hours_ago(hours));
    };
    leave("a.plans.12345", 2), leave("a.plans.12345.tmp", 2);
    leave("a.plans.678", 0);  // is being written
    leave("a.plans.mine", 2), leave("another.plans.12345", 2);
    (void)two_plans(file);
    EXPECT_EQ(files_in(folder.path), 4u);
    EXPECT_FALSE(fs::exists(folder / "a.plans.12345"));
    EXPECT_FALSE(fs::exists(folder / "a.plans.12345.tmp"));
    EXPECT_TRUE(fs::exists(folder / "a.plans.678"));
}
TEST(PlanCache, IsSavedWithoutALock) {
    const testing_support::Folder folder;
    const fs::path file = folder / "a.plans";
    const int held = ::open(folder.path.c_str(), O_RDONLY | O_DIRECTORY);
    ASSERT_EQ(::flock(held, LOCK_EX), 0);  // by a process that is stopped
    (void)two_plans(file);
    ::close(held);
    EXPECT_EQ(found(PlanCache(file, identity)), 2);
}

// ---- Where it lies -----------------------------------------------------------------------------

class Environment : public ::testing::Test {
protected:
    static constexpr const char* names[] = {"GX_CACHE", "XDG_CACHE_HOME", "HOME"};
    void SetUp() override {
        for (const char* const name : names) {
            const char* const value = std::getenv(name);
            was_.push_back(value == nullptr ? std::optional<std::string>() : value);
            ::unsetenv(name);
        }
    }
    void TearDown() override {
        for (std::size_t i = 0; i < was_.size(); ++i) {
            if (was_[i]) ::setenv(names[i], was_[i]->c_str(), 1);
            else ::unsetenv(names[i]);
        }
    }
    std::vector<std::optional<std::string>> was_{};
};
TEST_F(Environment, NamesTheFolderOfTheCache) {
    EXPECT_EQ(PlanCache::folder(), "");
    ::setenv("HOME", "/home/someone", 1);
    EXPECT_EQ(PlanCache::folder(), "/home/someone/.cache/gx");
    ::setenv("XDG_CACHE_HOME", "relative", 1);
    EXPECT_EQ(PlanCache::folder(), "/home/someone/.cache/gx");
    ::setenv("XDG_CACHE_HOME", "/caches", 1);
    EXPECT_EQ(PlanCache::folder(), "/caches/gx");
    ::setenv("GX_CACHE", "here", 1);
    EXPECT_EQ(PlanCache::folder(), "here");
    ::setenv("GX_CACHE", "", 1);
    EXPECT_EQ(PlanCache::folder(), "");
}

}  // namespace
