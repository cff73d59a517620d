//! Images of engines: pulled, loaded, removed, and built, with nothing of a build left but the image.

mod build;
mod golden;
mod handover;
mod hostile;
mod pull;
mod workshop;
