//! What need not be read of a window of several stretches of which is known, before they are read,
//! that nothing is missing.

use flightrec_format::abi::page::Lane;
use flightrec_format::meta::Meta;
use flightrec_reader::source::history::{Chapter, Chosen, Foretold, Names, Needs, Sought};

use crate::filter::{Filter, FilterPlan, Limits, Seeker};

/// What a filter leaves unread of such a window.
#[expect(clippy::struct_excessive_bools, reason = "what is known so far, each by itself")]
#[derive(Debug)]
pub struct Narrowing {
    filter: FilterPlan,
    /// Whether all is read in any case.
    is_off: bool,
    /// Whether it is shown what descriptors stand for.
    names_descriptors: bool,
    /// The coverage of all stretches has been told.
    is_told: bool,
    /// No thread has a name that is asked for.
    is_of_nobody: bool,
    /// What is sought, and in what.
    asked: Option<(Filter, Meta)>,
    /// What may be wanted of what is read.
    only: Limits,
}

impl Narrowing {
    /// For a filter. `names_descriptors`: it is shown what descriptors stand for.
    pub fn new(filter: FilterPlan, names_descriptors: bool) -> Self {
        Self {
            filter,
            is_off: false,
            names_descriptors,
            is_told: false,
            is_of_nobody: false,
            asked: None,
            only: Limits::default(),
        }
    }

    /// One by which everything is read if `is_off`.
    #[must_use]
    pub fn off(self, is_off: bool) -> Self {
        Self { is_off, ..self }
    }

    /// The filter of a stretch, looked up in its recording: after the first one, it wants only
    /// what is known of what is read in part.
    pub fn limit(&mut self, filter: Filter, goes_on: bool) -> Filter {
        if !goes_on {
            self.only = Limits::default();
        }
        filter.limited(self.only.clone())
    }

    /// As of `Visitor::listens`.
    pub fn listens(&self) -> bool {
        !self.filter.can_doubt() || self.filter.is_narrow()
    }

    /// What was left out of calls only their pages tell, or summaries of blocks.
    pub fn doubts(&self) -> bool {
        self.filter.can_doubt()
    }

    /// As of `Visitor::ask`.
    pub fn ask(&mut self, foretold: &Foretold) {
        let recording = &foretold.chapter().recording;
        let filter = self.filter.resolve(&recording.meta);
        self.asked = filter.ok().map(|filter| (filter, recording.meta.clone()));
    }

    /// As of `Visitor::chosen`.
    pub fn choose(&mut self, chosen: &Chosen) {
        if let Some(only) = chosen.only() {
            self.only.set(only.clone());
        }
    }

    /// Another window comes, of which nothing has been told.
    pub fn begin(&mut self) {
        (self.is_told, self.is_of_nobody, self.asked) = (false, false, None);
    }

    /// Its coverage has been told: it is sought with this filter, in this recording.
    pub fn told(&mut self, filter: Filter, meta: Meta) {
        self.is_told = true;
        self.asked = Some((filter, meta));
    }

    /// Whether the coverage of all stretches has been told.
    pub fn is_told(&self) -> bool {
        self.is_told
    }

    /// Whether that is so of a stretch, whatever its pages say.
    pub fn is_sure(&self, chapter: &Chapter) -> bool {
        let recording = &chapter.recording;
        chapter.is_narrow || self.is_told && recording.sure.is_some() && recording.whole_files
    }

    /// A stretch has been read.
    pub fn go_on(&mut self, is_after: bool) {
        self.is_told &= is_after;
    }

    /// As of `Visitor::wants_names`.
    pub fn wants_names(&self) -> bool {
        let filter = &self.filter;
        self.is_told
            && !self.is_off
            && (filter.wants_names() || filter.is_narrow() && !filter.is_of_tasks())
    }

    /// As of `Visitor::names`.
    pub fn learn(&mut self, names: &Names) {
        self.is_of_nobody = !self.filter.may_want_one(names.iter());
    }

    /// As of `Visitor::sought`.
    pub fn sought(&self, names: &Names) -> Option<Box<dyn Sought>> {
        let is_worth = !self.is_of_nobody && self.filter.is_narrow() && !self.filter.is_of_tasks();
        let (filter, meta) = self.asked.as_ref().filter(|_| is_worth)?;
        let seeker = Seeker::new(&self.filter, (filter, meta), names, self.names_descriptors);
        Some(Box::new(seeker))
    }

    /// As of `Visitor::needs`; `asked`: all that is asked for.
    ///
    /// What is about the lives of threads, and what the recorder tells of itself, is in the task
    /// lane alone, with all that their lines say.
    pub fn needs(&self, asked: Needs) -> Needs {
        let is_of_tasks = self.filter.is_of_tasks() && !self.is_off;
        match () {
            () if !self.is_told => Needs::All,
            () if is_of_tasks || self.is_of_nobody => Needs::Lanes(&[Lane::Task]),
            () => asked,
        }
    }
}
