// The walk through an image folder.
#pragma once

#include <sys/stat.h>  // stat

#include <algorithm>     // sort, any_of
#include <cctype>        // tolower
#include <cerrno>        // errno
#include <cstring>       // strerror
#include <system_error>  // error_code
#include <utility>       // exchange, move

#include <fmt/core.h>  // sentences

#include <gx/loader/formats/image_folder.hpp>  // the declarations

namespace gx {

namespace detail::image_folder {

namespace fs = std::filesystem;

struct Children {
    std::vector<std::string> folders{}, files{};  ///< names, sorted
    std::vector<std::string> links{};             ///< to nothing, or in a loop
    std::vector<std::string> others{};            ///< pipes, sockets, devices
};

[[nodiscard]] inline Children children_of(const fs::path& folder) {
    Children found;
    std::error_code trouble;
    for (fs::directory_iterator at(folder, trouble), end; !trouble && at != end;
         at.increment(trouble)) {
        std::error_code dangling;  // a link to nothing is neither
        (at->is_directory(dangling)                          ? found.folders
         : at->is_regular_file(dangling)                     ? found.files
         : at->is_symlink(dangling) && !at->exists(dangling) ? found.links
                                                             : found.others)
            .push_back(at->path().filename().string());
    }
    if (trouble)
        throw Error(
            fmt::format("gx: image folder '{}' can't be listed: {}. Give a folder that "
                        "this user may read.",
                        folder.string(), trouble.message()));
    std::ranges::sort(found.folders);
    std::ranges::sort(found.files);
    std::ranges::sort(found.links);
    std::ranges::sort(found.others);
    return found;
}

/// Paths of the files below one class, relative to it.
class Walk {
public:
    Walk(fs::path root, const std::vector<std::string>& endings)
        : root_(std::move(root)), endings_(endings) {}

    /// In the order of Python's sorted(os.walk(root)): by the paths of folders, then by names.
    /// no_file(path, what it is) for each link to nothing, which may have been a folder of images,
    /// and each pipe, socket and device that is named as an image.
    [[nodiscard]] std::vector<std::string> files(auto no_file) {
        enter("");
        std::ranges::sort(folders_, {}, &Folder::path);
        std::vector<std::string> all;
        for (const Folder& f : folders_) {
            for (const std::string& name : f.here.files)
                if (is_image(name)) all.push_back(f.path.empty() ? name : f.path + "/" + name);
            for (const std::string& name : f.here.links)
                no_file(root_ / f.path / name, "a symbolic link to nothing");
            for (const std::string& name : f.here.others)
                if (is_image(name))
                    no_file(root_ / f.path / name, "no regular file, as pipes and devices are");
        }
        return all;
    }

private:
    struct Folder {
        std::string path;
        Children here;
    };
    using Identity = std::pair<dev_t, ino_t>;

    [[nodiscard]] bool is_image(const std::string& name) const {
        std::string lower = name;
        for (char& c : lower) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
        return std::ranges::any_of(endings_, [&](const auto& e) { return lower.ends_with(e); });
    }
    void enter(const std::string& below) {
        const fs::path folder = below.empty() ? root_ : root_ / below;
        struct stat found{};
        if (::stat(folder.c_str(), &found) != 0)
            throw Error(fmt::format("gx: image folder '{}' can't be read: {}.", folder.string(),
                                    std::strerror(errno)));
        const Identity identity{found.st_dev, found.st_ino};
        if (std::ranges::find(above_, identity) != above_.end())
            throw Error(
                fmt::format("gx: image folder '{}' contains itself by a symbolic link: "
                            "its images would have no end. Remove the link.",
                            folder.string()));
        above_.push_back(identity);
        Children here = children_of(folder);
        const std::vector<std::string> inner = std::exchange(here.folders, {});
        folders_.push_back({below, std::move(here)});
        for (const std::string& name : inner) enter(below.empty() ? name : below + "/" + name);
        above_.pop_back();
    }

    fs::path root_;
    const std::vector<std::string>& endings_;
    std::vector<Folder> folders_{};
    std::vector<Identity> above_{};  // the folders that hold the present one
};

[[nodiscard]] inline encoded::Index index_of(const fs::path& folder,
                                             const ImageFolderOptions& options) {
    encoded::Index index;
    index.options = options;
    if (index.options.name.empty())  // a path may end in a slash
        index.options.name =
            (folder.has_filename() ? folder : folder.parent_path()).filename().string();
    Children here = children_of(folder);
    index.info.class_names = std::move(here.folders);
    const auto& names = index.info.class_names;
    const auto wrong = [&](const std::string& what) {
        throw Error(fmt::format("gx: image folder '{}' {}", folder.string(), what));
    };
    if (!here.links.empty())  // without a class of this name, the labels behind it would shift
        wrong(
            fmt::format("has a symbolic link to nothing, '{}': expected a class's folder behind "
                        "it. Mend the link, or remove it if it stands for no class.",
                        here.links.front()));
    if (names.empty())
        wrong(
            "has no folder in it: expected one for each class, with its images. Give the folder "
            "above the classes.");
    if (!options.class_names.empty() && options.class_names.size() != names.size())
        wrong(
            fmt::format("has {} folders: expected one for each of {} class names. Add or remove "
                        "folders, or correct the names in the options.",
                        names.size(), options.class_names.size()));
    if (options.classes > 0 && std::ssize(names) != options.classes)
        wrong(
            fmt::format("has {} folders: expected one for each of {} classes. Add or remove "
                        "folders, or correct the number of classes.",
                        names.size(), options.classes));
    const auto no_file = [&](const fs::path& path, const char* what) {
        index.skip(encoded::CorruptRecord(
            fmt::format("gx: '{}' is {}: expected an image file. Remove it, or leave it out {}.",
                        path.string(), what, encoded::skip_option)));
    };
    std::string without;
    int count_without = 0;
    for (std::size_t c = 0; c < names.size(); ++c) {
        index.files.push_back((folder / names[c]).string());
        const auto files = Walk(folder / names[c], options.endings).files(no_file);
        if (files.empty() && count_without++ < 10)
            without += (without.empty() ? "'" : ", '") + names[c] + "'";
        for (const std::string& name : files)
            index.add({.offset = 0, .bytes = 0, .file = std::uint32_t(c), .label = 0, .name = 0},
                      double(c) + options.first_label, name);
    }
    if (count_without > 0) {
        std::string endings;
        for (const std::string& e : options.endings) endings += (endings.empty() ? "" : " ") + e;
        wrong(
            fmt::format("has {} classes without images: {}{}. Files of images end in {}. Add "
                        "images, or remove the folders.",
                        count_without, without, count_without > 10 ? ", ..." : "", endings));
    }
    index.finish();
    index.info.classes = static_cast<int>(names.size());
    if (!options.class_names.empty()) index.info.class_names = options.class_names;
    return index;
}

/// Named, since g++ 12 at -O3 takes a temporary's endings for uninitialised where they throw.
[[nodiscard]] inline const ImageFolderOptions& defaults() {
    static const ImageFolderOptions options;
    return options;
}

}  // namespace detail::image_folder

GX_DECL ImageFolder::ImageFolder(const std::filesystem::path& folder)
    : ImageFolder(folder, detail::image_folder::defaults()) {}
GX_DECL ImageFolder::ImageFolder(const std::filesystem::path& folder,
                                 const ImageFolderOptions& options)
    : EncodedFiles(detail::image_folder::index_of(folder, options)) {}

}  // namespace gx
